// A directory seen through a file system where each open takes its time, as on a busy shared one (FUSE), and, where a rate is given, all that is
// read and written goes over one link of so many bytes a second.
// usage: slow_files DIRECTORY MOUNT_POINT MILLISECONDS [BYTES_A_SECOND]
// Ends when it is unmounted (fusermount3 -u MOUNT_POINT).
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const char* root;
static struct timespec pause_of_open;
static double rate;  // bytes a second; 0: there is no link
static double link_free;  // seconds of CLOCK_MONOTONIC
static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;

#define IN_ROOT(name, path) \
  char name[PATH_MAX];      \
  if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name) return -ENAMETOOLONG

static int told(long result) {
  return result < 0 ? -errno : (int)result;
}

static long over_the_link(long size) {
  if (size <= 0 || rate <= 0) return size;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double at = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  pthread_mutex_lock(&link_lock);
  link_free = (link_free > at ? link_free : at) + (double)size / rate;
  const double until = link_free;
  pthread_mutex_unlock(&link_lock);
  if (until < at + 0.002) return size;  // the clock wakes nobody sooner
  const struct timespec then = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
  return size;
}

static int look(const char* path, struct stat* st, struct fuse_file_info* file) {
  if (file) return told(fstat((int)file->fh, st));
  IN_ROOT(at, path);
  return told(lstat(at, st));
}
static int read_link(const char* path, char* to, size_t size) {
  IN_ROOT(at, path);
  const ssize_t n = readlink(at, to, size - 1);
  if (n < 0) return -errno;
  to[n] = 0;
  return 0;
}
static int make_directory(const char* path, mode_t mode) {
  IN_ROOT(at, path);
  return told(mkdir(at, mode));
}
static int remove_file(const char* path) {
  IN_ROOT(at, path);
  return told(unlink(at));
}
static int remove_directory(const char* path) {
  IN_ROOT(at, path);
  return told(rmdir(at));
}
static int make_link(const char* to, const char* path) {
  IN_ROOT(at, path);
  return told(symlink(to, at));
}
static int move(const char* from, const char* to, unsigned flags) {
  IN_ROOT(a, from);
  IN_ROOT(b, to);
  return told(renameat2(AT_FDCWD, a, AT_FDCWD, b, flags));
}
static int link_too(const char* from, const char* to) {
  IN_ROOT(a, from);
  IN_ROOT(b, to);
  return told(link(a, b));
}
static int change_mode(const char* path, mode_t mode, struct fuse_file_info* file) {
  if (file) return told(fchmod((int)file->fh, mode));
  IN_ROOT(at, path);
  return told(chmod(at, mode));
}
static int change_owner(const char* path, uid_t user, gid_t group, struct fuse_file_info* file) {
  if (file) return told(fchown((int)file->fh, user, group));
  IN_ROOT(at, path);
  return told(lchown(at, user, group));
}
static int cut(const char* path, off_t size, struct fuse_file_info* file) {
  if (file) return told(ftruncate((int)file->fh, size));
  IN_ROOT(at, path);
  return told(truncate(at, size));
}
static int change_times(const char* path, const struct timespec times[2], struct fuse_file_info* file) {
  if (file) return told(futimens((int)file->fh, times));
  IN_ROOT(at, path);
  return told(utimensat(AT_FDCWD, at, times, AT_SYMLINK_NOFOLLOW));
}
static int open_with(const char* path, int flags, mode_t mode, struct fuse_file_info* file) {
  nanosleep(&pause_of_open, NULL);
  IN_ROOT(at, path);
  const int fd = open(at, flags | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  file->fh = (uint64_t)fd;
  return 0;
}
static int open_file(const char* path, struct fuse_file_info* file) {
  return open_with(path, file->flags & ~O_CREAT, 0, file);
}
static int create_file(const char* path, mode_t mode, struct fuse_file_info* file) {
  return open_with(path, file->flags | O_CREAT, mode, file);
}
static int read_some(const char* path, char* to, size_t size, off_t at, struct fuse_file_info* file) {
  (void)path;
  return told(over_the_link(pread((int)file->fh, to, size, at)));
}
static int write_some(const char* path, const char* from, size_t size, off_t at,
                      struct fuse_file_info* file) {
  (void)path;
  return told(over_the_link(pwrite((int)file->fh, from, size, at)));
}
static int space(const char* path, struct statvfs* st) {
  IN_ROOT(at, path);
  return told(statvfs(at, st));
}
static int close_file(const char* path, struct fuse_file_info* file) {
  (void)path;
  return told(close((int)file->fh));
}
static int to_disk(const char* path, int only_data, struct fuse_file_info* file) {
  (void)path;
  return told(only_data ? fdatasync((int)file->fh) : fsync((int)file->fh));
}
static int list(const char* path, void* to, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info* file,
                enum fuse_readdir_flags flags) {
  (void)offset, (void)file, (void)flags;
  IN_ROOT(at, path);
  DIR* directory = opendir(at);
  if (!directory) return -errno;
  for (struct dirent* each; (each = readdir(directory));) fill(to, each->d_name, NULL, 0, 0);
  closedir(directory);
  return 0;
}

static const struct fuse_operations operations = {
    .getattr = look,
    .readlink = read_link,
    .mkdir = make_directory,
    .unlink = remove_file,
    .rmdir = remove_directory,
    .symlink = make_link,
    .rename = move,
    .link = link_too,
    .chmod = change_mode,
    .chown = change_owner,
    .truncate = cut,
    .utimens = change_times,
    .open = open_file,
    .create = create_file,
    .read = read_some,
    .write = write_some,
    .statfs = space,
    .release = close_file,
    .fsync = to_disk,
    .readdir = list,
};

int main(int count, char** words) {
  if (count != 4 && count != 5) return fprintf(stderr, "usage: slow_files DIRECTORY MOUNT_POINT MILLISECONDS [BYTES_A_SECOND]\n"), 2;
  root = words[1];
  const long milliseconds = atol(words[3]);
  pause_of_open = (struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
  if (count == 5) rate = atof(words[4]);
  umask(0);
  char* of_fuse[] = {words[0], "-f", "-o", "max_threads=64,max_idle_threads=64", words[2], NULL};
  return fuse_main(5, of_fuse, &operations, NULL);
}
