#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "wire/channel.h"

namespace harrow::wire {

/// One end of a TLS 1.3 connection (or of a plain one: plain_engine.h) without its socket: what came from the
/// network goes in, what is to be sent comes out. Of one thread.
class TlsEngine {
 public:
  enum class State { kHandshake, kOpen, kClosedByPeer, kFailed };

  virtual ~TlsEngine() = default;
  /// Takes bytes from the network; decrypted ones are appended to `plain`. A client begins with no bytes.
  virtual State Receive(std::string_view bytes, std::string* plain) = 0;
  /// Encrypts into the output. Only when open.
  virtual void Seal(std::string_view plain) = 0;
  /// Tells the peer, by the output, that nothing more comes.
  virtual void SealEnd() = 0;
  /// What is to be sent. Valid until the next call of anything else.
  virtual std::string_view output() const = 0;
  virtual void ConsumeOutput(size_t bytes) = 0;
  /// Why it failed: kRefused in the handshake (the peer does not hold the same key), kDamaged after it.
  virtual const Status& failure() const = 0;
  /// Encrypts nothing: what is sealed goes out as it is.
  virtual bool plain() const { return false; }
  /// Of the client end. Valid when open.
  virtual Role role() const = 0;
};

/// Settings and keys of one end; makes its engines, which keep it alive.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<TlsEngine> NewEngine() = 0;
};

/// The pre-shared key of a role: 48 bytes, HKDF-SHA384 of the run's key for "harrow/1 ROLE RUN". kInvalid:
/// the run's key has not 32 bytes.
Result<std::string> RoleKey(const Credentials& credentials, Role role);

/// After so many bytes a sender goes on with another key: RFC 8446, section 5.5 allows AES-GCM 2^24.5 records
/// a key.
inline constexpr uint64_t kBytesPerKey = uint64_t{64} << 30;

/// Serves clients of `roles` only.
Result<std::shared_ptr<TlsContext>> MakeTlsServer(const Credentials& credentials,
                                                  uint64_t bytes_per_key = kBytesPerKey,
                                                  std::vector<Role> roles = {Role::kAgent, Role::kClient});
Result<std::shared_ptr<TlsContext>> MakeTlsClient(const Credentials& credentials, Role role,
                                                  uint64_t bytes_per_key = kBytesPerKey);

}  // namespace harrow::wire
