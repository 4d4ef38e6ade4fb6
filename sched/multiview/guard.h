#pragma once

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "harrow/multiview.hpp"

namespace harrow::multiview {

/// Of a message; more is cut off. What a user's exception says may be anything.
inline constexpr std::size_t kLongestMessage = 64 << 10;

/// "call: what"; without a text where there is no memory even for that.
inline Status Thrown(Code code, const char* call, const char* what) noexcept {
  try {
    std::string text = *call ? std::string(call) + ": " + what : std::string(what);
    text.resize(std::min(text.size(), kLongestMessage));
    return Status(code, std::move(text));
  } catch (...) {
    return Status(code, std::string());
  }
}

/// Calls a user's function; what it throws becomes kTaskFailed.
template <class F>
Status Caught(const char* call, F&& f) noexcept {
  try {
    f();
    return {};
  } catch (const std::exception& e) {
    return Thrown(Code::kTaskFailed, call, e.what());
  } catch (...) {
    return Thrown(Code::kTaskFailed, call, "the function threw something that is no std::exception");
  }
}

/// A public call: no exception leaves it. `f` returns a Status, a Result or a MapResult.
template <class F>
auto Guarded(const char* call, F&& f) noexcept -> decltype(f()) {
  const auto failed = [](Status s) -> decltype(f()) {
    if constexpr (std::is_same_v<decltype(f()), MapResult>) {
      return {std::move(s), {}};
    } else {
      return s;
    }
  };
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return failed(Thrown(Code::kMemory, call, "no memory"));
  } catch (const std::length_error&) {
    return failed(Thrown(Code::kMemory, call, "no memory for so much"));
  } catch (const std::exception& e) {
    return failed(Thrown(Code::kInternal, call, e.what()));
  } catch (...) {
    return failed(Thrown(Code::kInternal, call, "something was thrown that is no std::exception"));
  }
}

}  // namespace harrow::multiview
