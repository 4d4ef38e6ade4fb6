// Submits the children of nodes whose tasks have ended, for all tasks of an allocation, so that these need no connection of their own and do not
// wait. A line on standard output for each node that it is told of.
//
// usage: submit RUN_DIR SOCKET TREE PROGRAM
//
// TREE and PROGRAM are those of node.c. To begin with node 0 is submitted when "root" is told. Those with smaller numbers go first, as they
// did when the tree was recorded.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <harrow/client.h>

namespace {

int Failed(const std::string& why) {
  std::fprintf(stderr, "submit: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return Failed("usage: submit RUN_DIR SOCKET TREE PROGRAM");
  const std::string tree_path = words[3], program = words[4];
  auto run = harrow::client::Run::Open(words[1]);
  if (!run) return Failed(run.error().message);
  const int tree = open(words[3], O_RDONLY | O_CLOEXEC), in = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un here{};
  here.sun_family = AF_UNIX;
  if (std::strlen(words[2]) >= sizeof here.sun_path) return Failed("the path of the socket is too long");
  std::strcpy(here.sun_path, words[2]);
  if (tree < 0 || in < 0 || bind(in, reinterpret_cast<sockaddr*>(&here), sizeof here) != 0) return Failed(std::strerror(errno));
  std::puts("listens");
  std::fflush(stdout);
  const auto submit = [&](int number) {
    return static_cast<bool>(run->Submit({.arguments = {program, tree_path, std::to_string(number)}, .priority = -number}));
  };
  char told[32];
  for (ssize_t got; (got = recv(in, told, sizeof told - 1, 0)) > 0;) {
    told[got] = '\0';
    if (std::strcmp(told, "root") == 0) {
      if (!submit(0)) return Failed(harrow_message());
      continue;
    }
    double node[3];
    if (pread(tree, node, sizeof node, std::atol(told) * static_cast<long>(sizeof node)) != sizeof node) return Failed("no node " + std::string(told));
    for (const double child : {node[1], node[2]}) {
      if (child >= 0 && !submit(static_cast<int>(child))) return Failed(harrow_message());
    }
    std::puts(told);
    std::fflush(stdout);
  }
  return Failed(std::strerror(errno));
}
