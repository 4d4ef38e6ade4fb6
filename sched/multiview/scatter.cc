// Elements that lie anywhere. Receivers do not know their senders, so the exchange ends by consensus: synchronous sends, then a
// non-blocking barrier once all of one's own have been matched (NBX; T. Hoefler, C. Siebert, A. Lumsdaine: Scalable
// Communication Protocols for Dynamic Sparse Data Exchange, PPoPP 2010). A process that has left one exchange may send for the
// next while others are still in the first: tags alternate.
#include "multiview/scatter.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <list>

namespace harrow::multiview {
namespace {

constexpr int kFirstTag = 16;
constexpr std::size_t kWindow = 8;             // messages under way at once
constexpr std::size_t kLetterBytes = 256 << 10;

/// One exchange: Send while there is something, then Finish.
class SparseExchange {
 public:
  using Deliver = std::function<Status(int process, const std::byte* bytes, std::size_t size)>;
  SparseExchange(internal::Team& team, Deliver deliver)
      : team_(team), deliver_(std::move(deliver)), tag_(kFirstTag + static_cast<int>(team.NextExchange() % 2)) {}

  void Send(int process, std::vector<std::byte> bytes) {
    if (process == team_.rank()) {
      Take(process, bytes);
      return;
    }
    while (under_way_.size() >= kWindow) Turn();
    under_way_.push_back({std::move(bytes), MPI_REQUEST_NULL});
    const auto& data = under_way_.back().bytes;
    MPI_Issend(data.data(), static_cast<int>(data.size()), MPI_BYTE, process, tag_, team_.comm(), &under_way_.back().request);
    team_.statistics().messages_sent += 1;
    team_.statistics().bytes_sent += data.size();
  }

  Status Finish() {
    while (!under_way_.empty()) Turn();
    MPI_Request barrier;
    MPI_Ibarrier(team_.comm(), &barrier);
    for (int done = 0; !done;) {
      Receive();
      MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
      if (!done) sched_yield();
    }
    return error_;
  }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MPI_Request request;
  };

  void Turn() {
    Receive();
    const std::size_t before = under_way_.size();
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      int done;
      MPI_Test(&it->request, &done, MPI_STATUS_IGNORE);
      it = done ? under_way_.erase(it) : std::next(it);
    }
    if (under_way_.size() == before) sched_yield();
  }

  void Receive() {
    for (;;) {
      int there;
      MPI_Message message;
      MPI_Status status;
      MPI_Improbe(MPI_ANY_SOURCE, tag_, team_.comm(), &there, &message, &status);
      if (!there) return;
      int size;
      MPI_Get_count(&status, MPI_BYTE, &size);
      buffer_.resize(static_cast<std::size_t>(size));
      MPI_Mrecv(buffer_.data(), size, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      Take(status.MPI_SOURCE, buffer_);
    }
  }

  // After an error messages are still taken, so that nobody waits for this process.
  void Take(int process, const std::vector<std::byte>& bytes) {
    if (!error_.ok()) return;
    error_ = deliver_(process, bytes.data(), bytes.size());
  }

  internal::Team& team_;
  Deliver deliver_;
  int tag_;
  std::list<Message> under_way_;
  std::vector<std::byte> buffer_;
  Status error_;
};

// How an entry begins in a message; its data follows.
struct Header {
  Index index, count;
  std::uint64_t order;
  std::uint64_t bytes;
};

struct Route {
  int process;
  Header header;
  const std::byte* data;
};

// Cuts entries where their owner changes, at most once a block and row.
std::vector<Route> Routes(const Layout& layout, const std::vector<Entry>& entries, std::size_t element_bytes) {
  const Grid& grid = layout.grid();
  const std::size_t last = grid.shape().size() - 1;
  std::vector<Route> routes;
  Indices at(last + 1);
  for (const Entry& e : entries) {
    const std::byte* data = e.data;
    for (Index i = e.index, end = e.index + e.count; i < end;) {
      Unlinear(grid.shape(), i, at.data());
      const Index block_end = grid.Start(last, grid.Holding(last, at[last]) + 1);
      Index some = std::min(end - i, block_end - at[last]);
      const int owner = layout.Owner(at);
      std::size_t bytes = e.count == 1 ? e.bytes : static_cast<std::size_t>(some) * element_bytes;
      if (!routes.empty() && routes.back().process == owner && element_bytes > 0 &&
          routes.back().header.index + routes.back().header.count == i && routes.back().header.order == e.order &&
          routes.back().data + routes.back().header.bytes == data) {
        routes.back().header.count += some;
        routes.back().header.bytes += bytes;
      } else {
        routes.push_back({owner, {i, some, e.order, bytes}, data});
      }
      data += bytes;
      i += some;
    }
  }
  std::stable_sort(routes.begin(), routes.end(), [](const Route& a, const Route& b) { return a.process < b.process; });
  return routes;
}

void Add(std::vector<std::byte>* bytes, const void* data, std::size_t size) {
  const std::size_t old = bytes->size();
  bytes->resize(old + size);
  if (size > 0) std::memcpy(bytes->data() + old, data, size);
}

}  // namespace

Status Scatter(internal::Team& team, const Layout& layout, const std::vector<Entry>& entries, std::size_t element_bytes,
               const Receiver& receive) {
  for (const Entry& e : entries) team.statistics().elements_examined += static_cast<std::uint64_t>(e.count);
  SparseExchange exchange(team, [&](int, const std::byte* bytes, std::size_t size) {
    for (std::size_t at = 0; at < size;) {
      Header h;
      std::memcpy(&h, bytes + at, sizeof h);
      at += sizeof h;
      const Entry entry{h.index, h.count, h.order, 0, const_cast<std::byte*>(bytes + at), h.bytes};
      if (Status s = receive(entry); !s.ok()) return s;
      at += h.bytes;
    }
    return Status();
  });
  std::vector<std::byte> letter;
  int process = -1;
  const auto post = [&] {
    if (!letter.empty()) exchange.Send(process, std::move(letter));
    letter = {};
  };
  std::vector<Route> routes = Routes(layout, entries, element_bytes);
  // Everyone begins with its own rank's neighbours, not with process 0.
  const auto start = std::partition_point(routes.begin(), routes.end(), [&](const Route& r) { return r.process < team.rank(); });
  std::rotate(routes.begin(), start, routes.end());
  for (Route& route : routes) {
    if (route.process != process) post();
    process = route.process;
    while (route.header.count > 0) {
      const std::size_t room = kLetterBytes - std::min(letter.size(), kLetterBytes);
      Header h = route.header;
      if (h.count > 1) {
        const auto fit = element_bytes ? static_cast<Index>((room - std::min(room, sizeof h)) / element_bytes) : h.count;
        h.count = std::clamp<Index>(fit, letter.empty() ? 1 : 0, h.count);
        h.bytes = static_cast<std::uint64_t>(h.count) * element_bytes;
      } else if (sizeof h + h.bytes > room && !letter.empty()) {
        h.count = 0;
      }
      if (h.count == 0) {
        post();
        continue;
      }
      Add(&letter, &h, sizeof h);
      Add(&letter, route.data, h.bytes);
      route.data += h.bytes;
      route.header.index += h.count;
      route.header.count -= h.count;
      route.header.bytes -= h.bytes;
    }
  }
  post();
  return exchange.Finish();
}

Status SendLetters(internal::Team& team, const std::vector<Letter>& letters,
                   const std::function<Status(int process, const std::byte* bytes, std::size_t size)>& receive) {
  SparseExchange exchange(team, receive);
  for (const Letter& letter : letters) exchange.Send(letter.process, letter.bytes);
  return exchange.Finish();
}

}  // namespace harrow::multiview
