// An unencrypted channel begins with "harrow/p" and a token of 32 bytes; the listener answers "harrow/p" when
// it knows the token, and hangs up when it does not. TLS begins with 0x16, so one port serves both.
#include "wire/plain_engine.h"

#include <algorithm>
#include <utility>

namespace harrow::wire {
namespace {

constexpr std::string_view kGreeting = "harrow/p";

class PlainEngine : public TlsEngine {
 public:
  void Seal(std::string_view plain) override { out_.append(plain); }
  void SealEnd() override {}
  std::string_view output() const override { return std::string_view(out_).substr(sent_); }
  void ConsumeOutput(size_t bytes) override {
    sent_ += bytes;
    if (sent_ < out_.size()) return;
    sent_ = 0;
    out_.clear();
  }
  bool plain() const override { return true; }
  const Status& failure() const override { return failure_; }
  Role role() const override { return Role::kBulk; }

 protected:
  /// Until as many bytes are here; the rest is left in `bytes`.
  bool Gather(size_t wanted, std::string_view* bytes) {
    const size_t n = std::min(wanted - got_.size(), bytes->size());
    got_.append(bytes->substr(0, n));
    bytes->remove_prefix(n);
    return got_.size() == wanted;
  }
  State Fail(const char* why) {
    failure_ = Status(Code::kRefused, why);
    return state_ = State::kFailed;
  }

  State state_ = State::kHandshake;
  std::string out_;
  size_t sent_ = 0;
  std::string got_;
  Status failure_;
};

class PlainClient : public PlainEngine {
 public:
  explicit PlainClient(const std::string& token) {
    out_ = kGreeting;
    out_ += token;
  }
  State Receive(std::string_view bytes, std::string* plain) override {
    if (state_ == State::kHandshake && Gather(kGreeting.size(), &bytes)) {
      if (got_ != kGreeting) return Fail("the peer does not speak this protocol");
      state_ = State::kOpen;
    }
    if (state_ == State::kOpen) plain->append(bytes);
    return state_;
  }
};

class PlainOrTlsServer : public PlainEngine {
 public:
  PlainOrTlsServer(std::unique_ptr<TlsEngine> tls, std::function<bool(std::string_view)> admit)
      : tls_(std::move(tls)), admit_(std::move(admit)) {}

  State Receive(std::string_view bytes, std::string* plain) override {
    if (!known_ && !bytes.empty()) {
      known_ = true;
      if (bytes.front() == kGreeting.front()) tls_ = nullptr;
    }
    if (tls_) return tls_->Receive(bytes, plain);
    if (state_ == State::kHandshake && Gather(kGreeting.size() + kTokenBytes, &bytes)) {
      const std::string_view got = got_;
      if (!got.starts_with(kGreeting) || !admit_(got.substr(kGreeting.size())))
        return Fail("it presented no token that was given out");
      state_ = State::kOpen;
      out_ = kGreeting;
    }
    if (state_ == State::kOpen) plain->append(bytes);
    return state_;
  }
  void Seal(std::string_view text) override { tls_ ? tls_->Seal(text) : PlainEngine::Seal(text); }
  void SealEnd() override {
    if (tls_) tls_->SealEnd();
  }
  std::string_view output() const override { return tls_ ? tls_->output() : PlainEngine::output(); }
  void ConsumeOutput(size_t bytes) override {
    tls_ ? tls_->ConsumeOutput(bytes) : PlainEngine::ConsumeOutput(bytes);
  }
  bool plain() const override { return !tls_; }
  const Status& failure() const override { return tls_ ? tls_->failure() : failure_; }
  Role role() const override { return tls_ ? tls_->role() : Role::kBulk; }

 private:
  std::unique_ptr<TlsEngine> tls_;  // until it is known to be plain
  bool known_ = false;
  std::function<bool(std::string_view)> admit_;
};

}  // namespace

std::unique_ptr<TlsEngine> MakePlainClient(const std::string& token) {
  return std::make_unique<PlainClient>(token);
}

std::unique_ptr<TlsEngine> MakePlainOrTlsServer(std::unique_ptr<TlsEngine> tls,
                                                std::function<bool(std::string_view token)> admit) {
  return std::make_unique<PlainOrTlsServer>(std::move(tls), std::move(admit));
}

}  // namespace harrow::wire
