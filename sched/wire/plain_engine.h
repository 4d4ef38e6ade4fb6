#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "wire/tls_engine.h"

namespace harrow::wire {

inline constexpr size_t kTokenBytes = 32;

/// The dialling end of an unencrypted channel: presents the token, and is open when it was accepted.
std::unique_ptr<TlsEngine> MakePlainClient(const std::string& token);

/// The listening end of a channel of which the first byte tells whether it is encrypted: then it is `tls`,
/// else `admit` says whether its token is good, once.
std::unique_ptr<TlsEngine> MakePlainOrTlsServer(std::unique_ptr<TlsEngine> tls,
                                                std::function<bool(std::string_view token)> admit);

}  // namespace harrow::wire
