#pragma once

#include <string>
#include <utility>
#include <variant>

namespace harrow {

enum class Code {
  kOk,
  kInvalid,      // the user's input or usage is wrong: exit status 2
  kNotFound,
  kExists,
  kPermission,
  kExhausted,    // disk, memory, descriptors
  kUnavailable,  // may work later: a peer is away, a lease has run out
  kDamaged,      // stored data does not read back as written
  kRefused,      // authentication or version
  kInternal,
};

/// How an operation went; the text is for the user and says what is wrong and what would be right.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : v_(std::in_place_index<1>, std::move(status)) {}
  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<0>(std::move(v_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Status status() const { return ok() ? Status() : std::get<1>(v_); }

 private:
  std::variant<T, Status> v_;
};

}  // namespace harrow

/// Returns from the enclosing function, which returns Status or Result, when EXPR is not ok.
#define HARROW_RETURN_IF_ERROR(expr)             \
  do {                                           \
    if (::harrow::Status s_ = (expr); !s_.ok()) return s_; \
  } while (false)
