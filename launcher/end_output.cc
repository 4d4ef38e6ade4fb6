#include "launcher/end_output.h"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <streambuf>
#include <string>
#include <unistd.h>

#include "base/text.h"
#include "launcher/command.h"

namespace harrow::launcher {
namespace {

/// Standard output by write(2).
class Output : public std::streambuf {
 public:
  int error() const { return error_; }

 protected:
  int overflow(int c) override {
    const char byte = static_cast<char>(c);
    return c == traits_type::eof() || xsputn(&byte, 1) == 1 ? traits_type::not_eof(c) : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize length) override {
    held_.append(text, static_cast<size_t>(length));
    return held_.size() < kHeld || sync() == 0 ? length : 0;
  }
  int sync() override {
    size_t at = 0;
    while (at < held_.size() && error_ == 0) {
      const ssize_t written = write(STDOUT_FILENO, held_.data() + at, held_.size() - at);
      if (written >= 0) {
        at += static_cast<size_t>(written);
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    held_.clear();
    return error_ == 0 ? 0 : -1;
  }

 private:
  static constexpr size_t kHeld = 1u << 16;
  std::string held_;
  int error_ = 0;
};

Output& TheOutput() {
  static Output* const output = new Output;  // std::cout is flushed after everything else is gone
  return *output;
}

}  // namespace

void BeginOutput() {
  std::cout.rdbuf(&TheOutput());
}

int EndOutput(int code) {
  std::cout.flush();
  const int error = TheOutput().error();
  if (error == 0 || error == EPIPE) return code;
  const int lost = Fail(Status(Code::kExhausted, StrCat("cannot write the output: ", strerror(error))));
  return code == kExitDone || code == kExitTaskFailed ? lost : code;
}

}  // namespace harrow::launcher
