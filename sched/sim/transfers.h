#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace harrow::sim {

/// Transfers that share links, each as fast as max-min fairness lets it be (Bertsekas, Gallager: Data Networks, 6.5.2):
/// rates grow together until a link is full or a transfer has its own largest rate. Times in seconds.
class Transfers {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr size_t kMostUses = 4;

  /// What a byte takes of a link.
  struct Use {
    uint32_t link = 0;
    double per_byte = 1;
  };

  /// `capacity` a second; n transfers at once leave capacity / (1 + loss (n - 1)) of it.
  uint32_t AddLink(double capacity, double loss = 0);
  /// Begins with the next Settle(). `most`: its own largest rate. `who` is given back when it ends. Returns its number.
  uint32_t Begin(double now, uint32_t who, double bytes, double most, std::span<const Use> uses);
  void Cancel(uint32_t transfer);
  /// Bytes that have not been transferred.
  double Left(uint32_t transfer, double now) const {
    const Transfer& t = transfers_[transfer];
    return std::max(0.0, t.left - t.rate * (now - t.since));
  }
  /// Finds the rates again, when transfers have begun or ended.
  void Settle(double now);
  /// When the next one ends, kNever: none does. Only after Settle().
  double Next() const { return heap_.empty() ? kNever : transfers_[heap_.front()].end; }
  /// Takes the one out that ends next; its `who`.
  uint32_t Pop();
  size_t count() const { return heap_.size(); }
  double rate(uint32_t transfer) const { return transfers_[transfer].rate; }

 private:
  struct Transfer {
    double left = 0, rate = 0, most = 0, since = 0, end = kNever;
    double found = 0;  // rate, while they are sought
    uint32_t who = 0;
    uint32_t heap_at = 0;
    uint32_t use_count = 0;
    bool sought = false;
    Use uses[kMostUses];
    uint32_t place[kMostUses] = {};  // in the link's list
  };
  struct Link {
    double capacity = 0, loss = 0;
    double demand = 0;  // of its transfers, were each as fast as it can be (twice the capacity is enough to know)
    bool full = false;  // demand was above capacity when rates were found last
    bool sought = false, changed = false;
    double left = 0, weight = 0;  // while rates are sought: of those without one
    uint32_t open = 0;
    std::vector<uint32_t> transfers;

    double offers() const {
      return transfers.size() < 2 ? capacity : capacity / (1 + loss * static_cast<double>(transfers.size() - 1));
    }
    double Wish(double most, double per_byte) const { return std::min(most * per_byte, 2 * capacity); }
    bool wanted() const { return demand > offers() * (1 + 1e-12); }
  };

  void Leave(uint32_t transfer);
  void Change(uint32_t link);
  void Seek(uint32_t transfer);
  void SeekLink(uint32_t link);
  void Fill();
  void HeapMove(uint32_t at);
  void HeapErase(uint32_t transfer);
  bool Earlier(uint32_t a, uint32_t b) const {
    return transfers_[a].end != transfers_[b].end ? transfers_[a].end < transfers_[b].end
                                                  : transfers_[a].who < transfers_[b].who;
  }

  std::vector<Transfer> transfers_;
  std::vector<Link> links_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> heap_;
  std::vector<uint32_t> begun_, changed_;
  std::vector<uint32_t> sought_, sought_links_;
};

}  // namespace harrow::sim
