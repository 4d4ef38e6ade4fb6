#include "os/log.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::os {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> ErrorLogger() {
  auto logger = std::make_shared<spdlog::logger>("harrow", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("harrow: %l: %v");
  logger->set_level(spdlog::level::warn);
  return logger;
}

// Replaced by OpenLog while other threads may log: hence reference-counted, and never destroyed.
struct Current {
  std::mutex mutex;
  std::shared_ptr<spdlog::logger> logger = ErrorLogger();
};
Current& TheLog() {
  static auto* current = new Current;
  return *current;
}

/// A line a write: spdlog's own files stay open in the programs that we start.
class DescriptorSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(Fd file) : file_(std::move(file)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    [[maybe_unused]] const ssize_t written = write(file_.get(), line.data(), line.size());
  }
  void flush_() override {}

 private:
  Fd file_;
};

bool OneLine(std::string_view text) {
  for (unsigned char c : text) {
    if (c < 0x20 || c == 0x7f) return false;
  }
  return true;
}

}  // namespace

Status OpenLog(const std::string& path, LogLevel level) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) {
    return Status(errno == ENOSPC || errno == EMFILE ? Code::kExhausted : Code::kPermission,
                  StrCat("cannot open the log ", path, ": ", strerror(errno)));
  }
  return OpenLog(std::move(fd), level);
}

Status OpenLog(Fd file, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("harrow", std::make_shared<DescriptorSink>(std::move(file)));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %P %l %v");
  logger->set_level(ToSpdlog(level));
  // A full disk must not turn each line of the log into a line on the terminal.
  logger->set_error_handler([](const std::string&) {});
  std::lock_guard lock(TheLog().mutex);
  TheLog().logger = std::move(logger);
  return {};
}

void Log(LogLevel level, std::string_view message) {
  std::shared_ptr<spdlog::logger> logger;
  {
    std::lock_guard lock(TheLog().mutex);
    logger = TheLog().logger;
  }
  spdlog::level::level_enum to = ToSpdlog(level);
  if (!logger->should_log(to)) return;
  if (OneLine(message)) {
    logger->log(to, spdlog::string_view_t(message.data(), message.size()));
  } else {
    // What peers and tasks say may be quoted in a message; it must not fake a line.
    std::string text = Printable(message, 2000);
    logger->log(to, spdlog::string_view_t(text));
  }
}

}  // namespace harrow::os
