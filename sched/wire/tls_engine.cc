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
// RFC 8446, section 5.5 allows AES-GCM 2^24.5 records a key.
constexpr uint64_t kBytesPerKey = uint64_t{64} << 30;

constexpr std::string_view RoleName(Role role) {
  return role == Role::kAgent ? "agent" : "client";
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
  std::string identity;
  std::array<unsigned char, kPskBytes> secret{};
  ~Psk() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

Status CryptoFailed(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return Status(Code::kInternal, StrCat("OpenSSL: ", what, ": ", text.data()));
}

std::string IdentityOf(const Credentials& credentials, Role role) {
  return StrCat("harrow/1 ", RoleName(role), " ", credentials.run_id);
}

Status Derive(const Credentials& credentials, Role role, Psk* psk) {
  Result<std::string> key = RoleKey(credentials, role);
  if (!key.ok()) return key.status();
  psk->role = role;
  psk->identity = IdentityOf(credentials, role);
  memcpy(psk->secret.data(), key->data(), psk->secret.size());
  OPENSSL_cleanse(key->data(), key->size());
  return {};
}

SSL_SESSION* MakeSession(SSL* ssl, const Psk& psk) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kSuiteNumber.data());
  SessionPtr session(SSL_SESSION_new());
  if (cipher == nullptr || !session ||
      SSL_SESSION_set1_master_key(session.get(), psk.secret.data(), psk.secret.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session.release();
}

// --- a BIO whose two ends are memory of the engine

struct Pipe {
  std::string_view in;
  std::string out;
};

int PipeRead(BIO* bio, char* to, int size) {
  auto* pipe = static_cast<Pipe*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (pipe->in.empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t n = std::min(pipe->in.size(), static_cast<size_t>(size));
  memcpy(to, pipe->in.data(), n);
  pipe->in.remove_prefix(n);
  return static_cast<int>(n);
}

int PipeWrite(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  static_cast<Pipe*>(BIO_get_data(bio))->out.append(from, static_cast<size_t>(size));
  return size;
}

long PipeControl(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int PipeCreate(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

const BIO_METHOD* PipeMethod() {
  static const BIO_METHOD* method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "harrow");
    BIO_meth_set_read(m, PipeRead);
    BIO_meth_set_write(m, PipeWrite);
    BIO_meth_set_ctrl(m, PipeControl);
    BIO_meth_set_create(m, PipeCreate);
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

  void NoteRole(Role role) {
    identity_known_ = true;
    role_ = role;
  }
  Context& context() { return *context_; }
  void NoteUnknownIdentity(std::string_view identity) { unknown_identity_ = Printable(identity, 80); }

 private:
  void Fail(int ssl_error);

  std::shared_ptr<Context> context_;
  const bool server_;
  SslPtr ssl_;
  Pipe pipe_;
  size_t sent_ = 0;
  State state_ = State::kHandshake;
  Status failure_;
  Role role_ = Role::kClient;
  bool identity_known_ = false;
  std::string unknown_identity_;
  uint64_t sealed_with_key_ = 0;
};

class Context : public TlsContext, public std::enable_shared_from_this<Context> {
 public:
  static Result<std::shared_ptr<TlsContext>> Make(const Credentials& credentials, std::vector<Role> roles,
                                                  bool server) {
    auto context = std::make_shared<Context>();
    context->server_ = server;
    context->ctx_.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
    SSL_CTX* ctx = context->ctx_.get();
    if (ctx == nullptr || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ctx, kSuite) != 1) {
      return CryptoFailed("no TLS 1.3 with AES-256-GCM");
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_early_data(ctx, 0);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, nullptr);  // there are no certificates
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
    return 1;
  }
  static int UseSession(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* length,
                        SSL_SESSION** session) {
    *session = nullptr;
    *identity = nullptr;
    *length = 0;
    if (digest != nullptr && !EVP_MD_is_a(digest, "SHA384")) return 1;
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
    int rc = SSL_do_handshake(ssl_.get());
    if (rc != 1) {
      int error = SSL_get_error(ssl_.get(), rc);
      if (error != SSL_ERROR_WANT_READ) Fail(error);
      pipe_.in = {};
      return state_;
    }
    // Without certificates nothing but the PSK can have brought it here; no other way may ever open.
    if (SSL_session_reused(ssl_.get()) != 1 || (server_ && !identity_known_)) {
      state_ = State::kFailed;
      failure_ = Status(Code::kRefused, "the handshake ended without the run's key");
      pipe_.in = {};
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
      Fail(error);
    }
    break;
  }
  pipe_.in = {};
  return state_;
}

void Engine::Seal(std::string_view plain) {
  if (state_ != State::kOpen || plain.empty()) return;
  ERR_clear_error();
  sealed_with_key_ += plain.size();
  if (sealed_with_key_ > kBytesPerKey) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    sealed_with_key_ = 0;
  }
  size_t written = 0;
  int rc = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written);
  if (rc != 1) Fail(SSL_get_error(ssl_.get(), rc));
}

void Engine::ConsumeOutput(size_t bytes) {
  sent_ += bytes;
  if (sent_ < pipe_.out.size()) return;
  constexpr size_t kKeep = 1u << 20;
  sent_ = 0;
  pipe_.out.clear();
  if (pipe_.out.capacity() > kKeep) pipe_.out.shrink_to_fit();
}

void Engine::Fail(int ssl_error) {
  unsigned long error = ssl_error == SSL_ERROR_SSL ? ERR_peek_error() : 0;
  const char* text = error == 0 ? nullptr : ERR_reason_error_string(error);
  std::string reason = text == nullptr ? "protocol error" : text;
  if (state_ == State::kOpen) {
    failure_ = Status(Code::kDamaged, StrCat("the encrypted stream does not verify (", reason, ")"));
  } else if (!unknown_identity_.empty() && !identity_known_) {
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
  ERR_clear_error();
}

}  // namespace

Result<std::string> RoleKey(const Credentials& credentials, Role role) {
  if (credentials.key.size() != kKeyBytes) {
    return Status(Code::kInvalid,
                  StrCat("the run's key has ", credentials.key.size(), " bytes, not ", kKeyBytes));
  }
  std::unique_ptr<EVP_KDF, Freer<EVP_KDF_free>> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  if (!kdf) return CryptoFailed("no HKDF");
  std::unique_ptr<EVP_KDF_CTX, Freer<EVP_KDF_CTX_free>> ctx(EVP_KDF_CTX_new(kdf.get()));
  std::string digest = "SHA384", key = credentials.key, info = IdentityOf(credentials, role);
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end(),
  };
  std::string secret(kPskBytes, '\0');
  const bool ok = ctx && EVP_KDF_derive(ctx.get(), reinterpret_cast<unsigned char*>(secret.data()),
                                        secret.size(), parameters) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  return ok ? Result<std::string>(std::move(secret)) : CryptoFailed("HKDF");
}

Result<std::shared_ptr<TlsContext>> MakeTlsServer(const Credentials& credentials) {
  return Context::Make(credentials, {Role::kAgent, Role::kClient}, true);
}

Result<std::shared_ptr<TlsContext>> MakeTlsClient(const Credentials& credentials, Role role) {
  return Context::Make(credentials, {role}, false);
}

}  // namespace harrow::wire
