// One thread with an event loop has the channels to other agents, what is asked of them and what they ask
// for; a few others copy from the submit directory and check large files. Calls from outside are posted to
// the loop.
#include "agent/transfers.h"

#include <future>
#include <thread>
#include <unordered_map>
#include <utility>

#include "agent/post_back.h"
#include "agent/serving.h"
#include "agent/workers.h"
#include "base/text.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace harrow::agent {
namespace {

class LoopTransfers : public Transfers {
 public:
  LoopTransfers(store::Store* store, const Options& options)
      : store_(*store),
        self_(options.peers.self),
        loop_(os::MakeEventLoop()),
        post_(std::make_shared<PostBack>(loop_.get())),
        workers_(options.workers),
        sources_(options.sources) {}

  ~LoopTransfers() override {
    workers_.Stop();
    if (!thread_.joinable()) return;
    post_->Post([this] {
      if (gate_ != nullptr) gate_->Close();
      fetches_.reset();
      serving_.reset();
      peers_.reset();
      // Once more round the loop, so that channels close.
      loop_->Post([this] { loop_->Stop(); });
    });
    thread_.join();
    post_->Stop();
  }

  Status Begin(const Options& options) {
    Result<std::unique_ptr<Peers>> peers = MakePeers(loop_.get(), options.peers);
    if (!peers.ok()) return peers.status();
    peers_ = *std::move(peers);
    addresses_ = peers_->addresses();
    serving_ = std::make_unique<Serving>(loop_.get(), *peers_, store_);
    fetches_ = std::make_unique<Fetches>(
        loop_.get(), *peers_, store_,
        [this](std::function<void()> work, std::function<void()> done) {
          Aside(std::move(work), std::move(done));
        },
        options.limits);
    serving_->SetComes([this](const store::ObjectId& id) { return fetches_->Comes(id); });
    fetches_->SetCame([this](const store::ObjectId& id) { serving_->Came(id); });
    peers_->Serve(Service::kTransfers, {.on_message = [this](NodeId from, std::string_view bytes,
                                                             bool sealed) { Take(from, bytes, sealed); },
                                        .on_gone =
                                            [this](NodeId node, const Status& why) {
                                              fetches_->Gone(node, why);
                                              serving_->Gone(node);
                                            },
                                        .on_sent = [this](NodeId node) { serving_->Sent(node); }});
    thread_ = std::thread([this] { loop_->Run(); });
    return {};
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }
  void Know(NodeId node, std::vector<std::string> addresses, uint64_t incarnation) override {
    loop_->Post([this, node, addresses = std::move(addresses), incarnation] {
      if (peers_) peers_->Know(node, addresses, incarnation);
    });
  }
  void Forget(NodeId node) override {
    loop_->Post([this, node] {
      if (peers_) peers_->Forget(node);
    });
  }
  void SetCredentials(const wire::Credentials& credentials) override {
    loop_->Post([this, credentials] {
      if (peers_) (void)peers_->SetCredentials(credentials);
    });
  }
  void Share(PeerGate* gate) override {
    loop_->Post([this, gate] {
      if (peers_ == nullptr || gate_ != nullptr) return;
      gate_ = gate;
      gate->Open(loop_.get(), peers_.get());
    });
  }
  void Fetch(Wanted wanted, Done done) override {
    auto fetching =
        std::make_shared<Fetching>(Fetching{.wanted = std::move(wanted), .done = std::move(done)});
    loop_->Post([this, fetching = std::move(fetching)] {
      if (fetches_) Start(fetching);
    });
  }
  void Abandon(FileId file) override {
    loop_->Post([this, file] {
      const auto [begin, end] = fetching_.equal_range(file);
      for (auto it = begin; it != end; ++it) {
        it->second->abandoned = true;
        if (it->second->ticket != 0 && fetches_) fetches_->Unwant(it->second->ticket);
      }
      fetching_.erase(file);
    });
  }
  Figures figures() override {
    std::promise<Figures> answer;
    loop_->Post([&] { answer.set_value({.served_bytes = serving_ ? serving_->served_bytes() : 0}); });
    return answer.get_future().get();
  }

 private:
  struct Fetching {
    Wanted wanted{};
    Done done{};
    uint64_t ticket = 0;  // of Fetches
    bool abandoned = false;
  };
  using FetchingPtr = std::shared_ptr<Fetching>;

  void Start(const FetchingPtr& fetching) {
    const Wanted& wanted = fetching->wanted;
    fetching_.emplace(wanted.file, fetching);
    if (wanted.object && store_.Has(wanted.object->id)) return End(fetching, {}, *wanted.object, 0);
    if (!wanted.from) return CopyIn(fetching);
    if (wanted.from == self_) {
      const Status none(Code::kNotFound, "this node is asked for what it has not got itself");
      return End(fetching, none, wanted.object.value_or(store::Object()), 0);
    }
    if (!wanted.object)
      return End(fetching, Status(Code::kInvalid, "a node is asked for an object without a name"), {}, 0);
    fetching->ticket =
        fetches_->Want(*wanted.object, wanted.from, [this, fetching](const Status& status, int64_t bytes) {
          End(fetching, status, *fetching->wanted.object, bytes);
        });
  }

  void CopyIn(const FetchingPtr& fetching) {
    struct Read {
      Result<store::Object> object = store::Object();
      int64_t bytes = 0;
      std::string source{};
    };
    const auto read = std::make_shared<Read>();
    Aside(
        [this, fetching, read] {
          const std::string& path = fetching->wanted.path;
          if (sources_ != nullptr && !fetching->wanted.listed) read->source = SourceOf(path);
          const std::optional<store::Object> known =
              read->source.empty() ? std::nullopt : sources_->Find(path, read->source);
          // Named again, it is not spare any more.
          if (known && store_.Has(known->id) && store_.Begin(*known).status().code() == Code::kExists) {
            read->object = *known;
            return;
          }
          read->object = store_.CopyIn(path);
          if (!read->object.ok()) return;
          read->bytes = read->object->bytes;
          if (read->source.empty()) return;
          if (SourceOf(path) == read->source) {
            sources_->Note(path, read->source, *read->object);
          } else {
            read->source.clear();
          }
        },
        [this, fetching, read] {
          if (!read->object.ok()) return End(fetching, read->object.status(), {}, 0);
          const store::Object& object = *read->object;
          Status status;
          if (fetching->wanted.object && *fetching->wanted.object != object)
            status = Status(Code::kDamaged, StrCat(fetching->wanted.path, " is no more what it was before"));
          End(fetching, status, object, read->bytes, read->source);
        });
  }

  void End(const FetchingPtr& fetching, const Status& status, const store::Object& object, int64_t bytes,
           const std::string& source = {}) {
    if (fetching->abandoned) return;
    const auto [begin, end] = fetching_.equal_range(fetching->wanted.file);
    for (auto it = begin; it != end; ++it) {
      if (it->second != fetching) continue;
      fetching_.erase(it);
      break;
    }
    fetching->done({.file = fetching->wanted.file,
                    .status = status,
                    .object = object,
                    .from = fetching->wanted.from,
                    .fetched_bytes = bytes,
                    .source = source,
                    .listed = fetching->wanted.listed ? fetching->wanted.object : std::nullopt});
  }

  void Aside(std::function<void()> work, std::function<void()> done) {
    workers_.Do([post = post_, work = std::move(work), done = std::move(done)]() mutable {
      work();
      work = nullptr;
      post->Post(std::move(done));
    });
  }

  void Take(NodeId from, std::string_view bytes, bool sealed) {
    std::string_view data;
    const auto message = wire::TakeFrame(bytes, &data);
    if (!message)
      return peers_->HangUp(from, Status(Code::kDamaged, "a message of transfers is shorter than it says"));
    if (const Status status = wire::Decode(*message, data.size(), &received_); !status.ok())
      return peers_->HangUp(from, status);
    if (sealed) {
      for (const uint64_t request : received_.unwanted()) serving_->Unwanted(from, request);
      for (const pb::PieceWanted& wanted : received_.wanted()) serving_->Wanted(from, wanted);
    }
    if (received_.piece_size() > 0) fetches_->Take(from, received_, data, sealed);
  }

  store::Store& store_;
  const NodeId self_;
  const std::unique_ptr<os::EventLoop> loop_;
  const std::shared_ptr<PostBack> post_;
  Workers workers_;
  SourceIndex* const sources_;
  // Of the loop's thread.
  std::unique_ptr<Peers> peers_;
  PeerGate* gate_ = nullptr;
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Fetches> fetches_;
  std::unordered_multimap<FileId, FetchingPtr> fetching_;
  pb::PeerTransfer received_;  // reused
  std::vector<std::string> addresses_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Transfers>> Transfers::Start(store::Store* store, const Options& options) {
  auto transfers = std::make_unique<LoopTransfers>(store, options);
  HARROW_RETURN_IF_ERROR(transfers->Begin(options));
  return std::unique_ptr<Transfers>(std::move(transfers));
}

}  // namespace harrow::agent
