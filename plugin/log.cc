#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fd.h"

namespace harrow::plugin {
namespace {

constexpr int kLine = 1024;

int parent = kNoFd;

void Log(bool error, const char* format, va_list arguments) {
  char line[kLine + 2];
  line[0] = error ? 'e' : 'n';
  char* text = line + 1;
  vsnprintf(text, kLine, format, arguments);
  for (char* c = text; *c != '\0'; ++c) {
    if (static_cast<unsigned char>(*c) < ' ' || *c == 127) *c = '?';
  }
  if (parent == kNoFd) return WriteLog(error, text);
  size_t size = strlen(line);
  line[size++] = '\n';
  // A parent that has gone hears no more; there is nobody else to tell.
  if (write(parent, line, size) < 0) return;
}

}  // namespace

void LogError(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log(true, format, arguments);
  va_end(arguments);
}

void LogNotice(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log(false, format, arguments);
  va_end(arguments);
}

void SendLogTo(int fd) {
  parent = fd;
}

}  // namespace harrow::plugin
