// TLS 1.3 (RFC 8446) with an external pre-shared key and nothing else: one cipher suite (AES-256-GCM,
// SHA-384), always with a fresh Diffie-Hellman exchange (psk_dhe_ke), no certificates, no tickets, no early
// data (which could be replayed).
//
// The PSK is HKDF-SHA384(run key; role, run id), so it proves the role and the run (RFC 9257, section 7: a
// key for one purpose and direction). The identity that the client sends in clear names them. A recorded
// ClientHello is accepted up to its answer, but its Finished cannot be made without the Diffie-Hellman
// secret: a server's end counts as open only after that.
#include "wire/tls_engine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <utility>
#include <vector>

#include "base/text.h"

namespace harrow::wire {
namespace {

constexpr const char* kSuite = "TLS_AES_256_GCM_SHA384";
constexpr std::array<unsigned char, 2> kSuiteNumber = {0x13, 0x02};
constexpr size_t kPskBytes = 48;
constexpr size_t kKeyBytes = 32;

constexpr std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kAgent:
      return "agent";
    case Role::kPeer:
      return "peer";
    case Role::kServer:
      return "server";
    default:
      return "client";
  }
}

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using CtxPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freer<SSL_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Freer<SSL_SESSION_free>>;

struct Psk {
  Role role = Role::kAgent;
  std::string identity, secret;
  ~Psk() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

std::string IdentityOf(const Credentials& credentials, Role role) {
  return StrCat("harrow/1 ", RoleName(role), " ", credentials.run_id);
}

Status Derive(const Credentials& credentials, Role role, Psk* psk) {
  Result<std::string> key = RoleKey(credentials, role);
  if (!key.ok()) return key.status();
  psk->role = role;
  psk->identity = IdentityOf(credentials, role);
  psk->secret = std::move(*key);
  return {};
}

SSL_SESSION* MakeSession(SSL* ssl, const Psk& psk) {
  SessionPtr session(SSL_SESSION_new());
  const auto* secret = reinterpret_cast<const unsigned char*>(psk.secret.data());
  const bool made = session && SSL_SESSION_set1_master_key(session.get(), secret, psk.secret.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), SSL_CIPHER_find(ssl, kSuiteNumber.data())) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return made ? session.release() : nullptr;
}

// --- a BIO whose two ends are memory of the engine

struct Pipe {
  std::string_view in;
  std::string out;
};

int PipeRead(BIO* bio, char* to, int size) {
  auto* pipe = static_cast<Pipe*>(BIO_get_data(bio));
  if (pipe->in.empty()) {
    BIO_set_retry_read(bio);
    return 0;
  }
  size_t n = std::min(pipe->in.size(), static_cast<size_t>(size));
  memcpy(to, pipe->in.data(), n);
  pipe->in.remove_prefix(n);
  return static_cast<int>(n);
}

int PipeWrite(BIO* bio, const char* from, int size) {
  static_cast<Pipe*>(BIO_get_data(bio))->out.append(from, static_cast<size_t>(size));
  return size;
}

long PipeControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH;
}

const BIO_METHOD* PipeMethod() {
  static const BIO_METHOD* method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "harrow");
    BIO_meth_set_read(m, PipeRead);
    BIO_meth_set_write(m, PipeWrite);
    BIO_meth_set_ctrl(m, PipeControl);
    return m;
  }();
  return method;
}

class Context;

class Engine : public TlsEngine {
 public:
  Engine(std::shared_ptr<Context> context, bool server);

  State Receive(std::string_view bytes, std::string* plain) override;
  void Seal(std::string_view plain) override;
  void SealEnd() override {
    if (state_ == State::kOpen) SSL_shutdown(ssl_.get());
  }
  std::string_view output() const override { return std::string_view(pipe_.out).substr(sent_); }
  void ConsumeOutput(size_t bytes) override;
  const Status& failure() const override { return failure_; }
  Role role() const override { return role_; }

  void NoteRole(Role role) { role_ = role; }
  Context& context() { return *context_; }
  void NoteUnknownIdentity(std::string_view identity) { unknown_identity_ = Printable(identity, 80); }

 private:
  void Fail();

  std::shared_ptr<Context> context_;
  const bool server_;
  SslPtr ssl_;
  Pipe pipe_;
  size_t sent_ = 0;
  State state_ = State::kHandshake;
  Status failure_;
  Role role_ = Role::kClient;
  std::string unknown_identity_;
  uint64_t sealed_with_key_ = 0;
};

class Context : public TlsContext, public std::enable_shared_from_this<Context> {
 public:
  static Result<std::shared_ptr<TlsContext>> Make(const Credentials& credentials, std::vector<Role> roles,
                                                  bool server, uint64_t bytes_per_key) {
    auto context = std::make_shared<Context>();
    context->server_ = server;
    context->bytes_per_key_ = bytes_per_key;
    context->ctx_.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
    SSL_CTX* ctx = context->ctx_.get();
    const bool made = ctx != nullptr && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(ctx, kSuite) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1;
    if (!made) return Status(Code::kInternal, "OpenSSL has no TLS 1.3 with AES-256-GCM");
    for (Role role : roles) {
      context->psks_.emplace_back();
      HARROW_RETURN_IF_ERROR(Derive(credentials, role, &context->psks_.back()));
    }
    if (server) {
      SSL_CTX_set_psk_find_session_callback(ctx, FindSession);
    } else {
      SSL_CTX_set_psk_use_session_callback(ctx, UseSession);
    }
    return std::shared_ptr<TlsContext>(context);
  }

  std::unique_ptr<TlsEngine> NewEngine() override {
    return std::make_unique<Engine>(shared_from_this(), server_);
  }
  SSL_CTX* ctx() { return ctx_.get(); }
  uint64_t bytes_per_key() const { return bytes_per_key_; }

 private:
  friend class Engine;
  // Both return 0 for an internal error only; without a session the handshake goes on to find no certificate
  // and fails.
  static int FindSession(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
    auto* engine = static_cast<Engine*>(SSL_get_app_data(ssl));
    std::string_view wanted(reinterpret_cast<const char*>(identity), length);
    *session = nullptr;
    for (const Psk& psk : Of(ssl).psks_) {
      if (psk.identity != wanted) continue;
      engine->NoteRole(psk.role);
      *session = MakeSession(ssl, psk);
      return *session != nullptr;
    }
    engine->NoteUnknownIdentity(wanted);
    return true;
  }
  static int UseSession(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length,
                        SSL_SESSION** session) {
    const Psk& psk = Of(ssl).psks_.front();
    *session = MakeSession(ssl, psk);
    *identity = reinterpret_cast<const unsigned char*>(psk.identity.data());
    *length = psk.identity.size();
    return *session != nullptr;
  }
  static Context& Of(SSL* ssl);

  CtxPtr ctx_;
  std::vector<Psk> psks_;
  bool server_ = false;
  uint64_t bytes_per_key_ = 0;
};

Engine::Engine(std::shared_ptr<Context> context, bool server)
    : context_(std::move(context)), server_(server), ssl_(SSL_new(context_->ctx())) {
  BIO* bio = BIO_new(PipeMethod());
  BIO_set_data(bio, &pipe_);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  if (server_) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
    role_ = context_->psks_.front().role;
  }
}

Context& Context::Of(SSL* ssl) {
  return static_cast<Engine*>(SSL_get_app_data(ssl))->context();
}

TlsEngine::State Engine::Receive(std::string_view bytes, std::string* plain) {
  if (state_ == State::kFailed || state_ == State::kClosedByPeer) return state_;
  ERR_clear_error();
  pipe_.in = bytes;
  if (state_ == State::kHandshake) {
    const int rc = SSL_do_handshake(ssl_.get());
    if (rc != 1 && SSL_get_error(ssl_.get(), rc) == SSL_ERROR_WANT_READ) return state_;
    // Without certificates nothing but the PSK can have brought it here; no other way may ever open.
    if (rc != 1 || SSL_session_reused(ssl_.get()) != 1) {
      Fail();
      return state_;
    }
    state_ = State::kOpen;
  }
  std::array<char, SSL3_RT_MAX_PLAIN_LENGTH> record;  // not initialised
  while (true) {
    size_t got = 0;
    int rc = SSL_read_ex(ssl_.get(), record.data(), record.size(), &got);
    if (rc == 1) {
      plain->append(record.data(), got);
      continue;
    }
    int error = SSL_get_error(ssl_.get(), rc);
    if (error == SSL_ERROR_ZERO_RETURN) {
      state_ = State::kClosedByPeer;
    } else if (error != SSL_ERROR_WANT_READ) {
      Fail();
    }
    return state_;
  }
}

void Engine::Seal(std::string_view plain) {
  if (state_ != State::kOpen || plain.empty()) return;
  ERR_clear_error();
  sealed_with_key_ += plain.size();
  if (sealed_with_key_ > context_->bytes_per_key()) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    sealed_with_key_ = plain.size();
  }
  size_t written;
  if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1) Fail();
}

void Engine::ConsumeOutput(size_t bytes) {
  sent_ += bytes;
  if (sent_ < pipe_.out.size()) return;
  sent_ = 0;
  pipe_.out.clear();
}

void Engine::Fail() {
  const unsigned long error = ERR_peek_error();
  const char* text = ERR_reason_error_string(error);
  std::string reason = text == nullptr ? "protocol error" : text;
  if (state_ == State::kOpen) {
    failure_ = Status(Code::kDamaged, StrCat("the encrypted stream does not verify (", reason, ")"));
  } else if (!unknown_identity_.empty()) {
    failure_ =
        Status(Code::kRefused, StrCat("it asked for another run or role (\"", unknown_identity_, "\")"));
  } else if (ERR_GET_REASON(error) == SSL_R_BINDER_DOES_NOT_VERIFY) {
    failure_ = Status(Code::kRefused, "it holds a wrong key");
  } else if (!server_ && ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET) {
    failure_ =
        Status(Code::kRefused, StrCat("the server does not accept the key of this run (", reason, ")"));
  } else {
    failure_ =
        Status(Code::kRefused, StrCat("it does not speak this protocol with this run's key (", reason, ")"));
  }
  state_ = State::kFailed;
}

}  // namespace

Result<std::string> RoleKey(const Credentials& credentials, Role role) {
  if (credentials.key.size() != kKeyBytes) {
    return Status(Code::kInvalid,
                  StrCat("the run's key has ", credentials.key.size(), " bytes, not ", kKeyBytes));
  }
  std::unique_ptr<EVP_KDF, Freer<EVP_KDF_free>> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  std::unique_ptr<EVP_KDF_CTX, Freer<EVP_KDF_CTX_free>> ctx(EVP_KDF_CTX_new(kdf.get()));
  std::string digest = "SHA384", info = IdentityOf(credentials, role);
  auto* key = const_cast<char*>(credentials.key.data());  // is not written to
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key, credentials.key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end(),
  };
  std::string secret(kPskBytes, '\0');
  const bool ok = ctx && EVP_KDF_derive(ctx.get(), reinterpret_cast<unsigned char*>(secret.data()),
                                        secret.size(), parameters) == 1;
  if (!ok) return Status(Code::kInternal, "OpenSSL has no HKDF with SHA-384");
  return secret;
}

Result<std::shared_ptr<TlsContext>> MakeTlsServer(const Credentials& credentials, uint64_t bytes_per_key,
                                                  std::vector<Role> roles) {
  return Context::Make(credentials, std::move(roles), true, bytes_per_key);
}

Result<std::shared_ptr<TlsContext>> MakeTlsClient(const Credentials& credentials, Role role,
                                                  uint64_t bytes_per_key) {
  return Context::Make(credentials, {role}, false, bytes_per_key);
}

}  // namespace harrow::wire
