// The ends of streams that tests/perf/streams measures, as agents have them, and what they are compared with.
//   perf_streams local DIRECTORY MIB        a program writes so much, another reads it: prints the seconds
//   through an
//                                           agent's log, and through a pipe between the two
//   perf_streams write DIRECTORY HOST plain|tls MIB
//                                           tells its address, and writes when a line comes, until its
//                                           standard input ends
//   perf_streams read DIRECTORY HOST plain|tls ADDRESS
//                                           reads that from node 1: prints the seconds and the bytes
//   perf_streams produce MIB | consume      writes so much to standard output; reads standard input to its
//   end
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "agent/stream_port.h"
#include "live/transfer_nodes.h"
#include "os/process.h"

namespace {

using harrow::AttemptId;
using harrow::NodeId;
using harrow::StreamId;
using harrow::TaskId;
using harrow::agent::LocalTask;
using harrow::agent::StreamPort;
using harrow::test::TransferNode;
using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 64 << 10;
constexpr int kPipe = 256 << 10;  // as the agent's

double Since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "perf_streams: %s\n", why.c_str());
  std::exit(1);
}

int Produce(int64_t bytes) {
  const std::string block(kBlock, 'x');
  while (bytes > 0) {
    const ssize_t n =
        write(STDOUT_FILENO, block.data(), std::min<size_t>(kBlock, static_cast<size_t>(bytes)));
    if (n < 0) return 1;
    bytes -= n;
  }
  return 0;
}

int64_t Consume(int fd) {
  std::string block(kBlock, '\0');
  int64_t all = 0;
  for (ssize_t n = 0; (n = read(fd, block.data(), kBlock)) > 0;) all += n;
  return all;
}

/// Of this program, with these descriptors.
pid_t Start(const std::vector<std::string>& args, int in, int out) {
  std::vector<char*> argv;
  std::vector<std::string> words = {"/proc/self/exe"};
  words.insert(words.end(), args.begin(), args.end());
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (in >= 0) dup2(in, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

void Await(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) Fail("a program failed");
}

struct Pipe {
  explicit Pipe(int bytes = 0) {
    if (pipe2(ends, O_CLOEXEC) != 0) Fail("no pipe");
    if (bytes > 0) (void)fcntl(ends[0], F_SETPIPE_SZ, bytes);
  }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  void Close(int end) {
    if (ends[end] >= 0) close(std::exchange(ends[end], -1));
  }
  int ends[2] = {-1, -1};
};

LocalTask WriterTask() {
  LocalTask task;
  task.id = 1;
  task.writes_streams = true;
  return task;
}

LocalTask ReaderTask(NodeId node) {
  LocalTask task;
  task.id = 2;
  task.sources.push_back({.stream = StreamId(1), .writer = {TaskId(1), 1}, .node = node});
  return task;
}

/// What a slot's thread does for a writer.
void Keep(StreamPort& port, int pipe) {
  const LocalTask task = WriterTask();
  auto log = port.Write(task.attempt_id());
  harrow::stream::LogWriter writer;
  if (!log.ok() || !writer.Open(log->get()).ok()) Fail("no log");
  while (true) {
    pollfd some = {pipe, POLLIN, 0};
    poll(&some, 1, -1);
    const auto taken = writer.TakeFrom(pipe);
    if (!taken.ok()) Fail(taken.status().message());
    if (*taken == 0) break;
    if ((*log)->TakeWatch()) port.Grown(task.attempt_id());
  }
  harrow::agent::TaskResult result;
  result.end = harrow::agent::End::kExited;
  port.Settle(task, &result);
}

double ThroughLog(const std::string& directory, const std::string& mib) {
  StreamPort port(directory, StreamPort::Hooks{});
  port.SetSelf(NodeId(0));
  port.Join(WriterTask());
  port.Join(ReaderTask(NodeId(0)));
  Pipe out(kPipe), in(kPipe);
  const auto began = Clock::now();
  std::thread slot([&] { Keep(port, out.ends[0]); });
  if (!port.Feed({TaskId(2), 1}, in.ends[1]).ok()) Fail("no feed");
  in.Close(1);
  const pid_t reader = Start({"consume"}, in.ends[0], -1);
  const pid_t writer = Start({"produce", mib}, -1, out.ends[1]);
  out.Close(1);
  in.Close(0);
  Await(writer);
  Await(reader);
  const double seconds = Since(began);
  slot.join();
  return seconds;
}

double ThroughPipe(const std::string& mib) {
  Pipe pipe;
  const auto began = Clock::now();
  const pid_t reader = Start({"consume"}, pipe.ends[0], -1);
  const pid_t writer = Start({"produce", mib}, -1, pipe.ends[1]);
  pipe.Close(0);
  pipe.Close(1);
  Await(writer);
  Await(reader);
  return Since(began);
}

/// A node with streams, of which the channels are those for files.
class Node {
 public:
  Node(uint32_t id, const std::string& directory, const std::string& host, bool encrypt)
      : port_(directory, StreamPort::Hooks{}), node_(id, directory + "/store", At(host), encrypt) {
    port_.SetSelf(NodeId(id));
    node_.transfers().Share(port_.gate());
  }
  StreamPort& port() { return port_; }
  TransferNode& node() { return node_; }

 private:
  static harrow::agent::Transfers::Options At(const std::string& host) {
    harrow::agent::Transfers::Options options;
    options.peers.hosts = {host};
    return options;
  }
  StreamPort port_;
  TransferNode node_;
};

int Write(const std::vector<std::string>& args) {
  Node node(1, args.at(1), args.at(2), args.at(3) == "tls");
  node.port().Join(WriterTask());
  node.node().transfers().Know(NodeId(2), {}, 1002);
  std::printf("%s\n", node.node().transfers().addresses().front().c_str());
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) return 1;
  Pipe out(kPipe);
  const pid_t writer = Start({"produce", args.at(4)}, -1, out.ends[1]);
  out.Close(1);
  Keep(node.port(), out.ends[0]);
  Await(writer);
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

int Read(const std::vector<std::string>& args) {
  Node node(2, args.at(1), args.at(2), args.at(3) == "tls");
  node.port().Join(ReaderTask(NodeId(1)));
  Pipe in(kPipe);
  const auto began = Clock::now();
  node.node().transfers().Know(NodeId(1), {args.at(4)}, 1001);
  if (!node.port().Feed({TaskId(2), 1}, in.ends[1]).ok()) Fail("no feed");
  in.Close(1);
  const int64_t bytes = Consume(in.ends[0]);
  std::printf("%.6f %lld\n", Since(began), static_cast<long long>(bytes));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::string what = args.empty() ? "" : args[0];
  if (what == "produce" && args.size() == 2) return Produce(std::stoll(args[1]) << 20);
  if (what == "consume") return Consume(STDIN_FILENO) >= 0 ? 0 : 1;
  signal(SIGPIPE, SIG_IGN);
  if (what == "local" && args.size() == 3) {
    std::printf("%.6f ", ThroughLog(args[1], args[2]));
    std::printf("%.6f\n", ThroughPipe(args[2]));
    return 0;
  }
  if (what == "write" && args.size() == 5) return Write(args);
  if (what == "read" && args.size() == 5) return Read(args);
  Fail("local, write or read: see the top of its source");
}
