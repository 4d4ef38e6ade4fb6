#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace harrow::migrate {

/// Some of the digests of an image's contents, always the same ones, sorted, each once: so what two samples have in common is
/// in proportion to what the images have.
using Sample = std::vector<uint64_t>;
constexpr uint64_t kSampled = 16;  // one digest in so many

/// The images that a node keeps, as far as others may have contents of theirs (alike.cc). Of all threads; outlives its turns.
class AlikeImages {
  struct Image {
    Sample sample{};
    std::string directory{};
  };

 public:
  static constexpr size_t kEarlier = 2;  // directories that a turn has at most
  static constexpr size_t kKept = 64;    // images that are remembered

  /// While an image is being kept. With the turn's end those go on that wait for it.
  class Turn {
   public:
    ~Turn();
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)), image_(other.image_), earlier_(std::move(other.earlier_)) {}
    Turn& operator=(Turn&&) = delete;
    /// Where images of others lie that have contents of this one (packed.h), the closest first. They may be gone by the time they are read.
    const std::vector<std::string>& earlier() const { return earlier_; }
    /// The image is whole, and lies in this directory.
    void Done(std::string directory);

   private:
    friend class AlikeImages;
    Turn(AlikeImages* of, std::list<Image>::iterator image) : of_(of), image_(image) {}

    AlikeImages* of_;
    std::list<Image>::iterator image_;
    std::vector<std::string> earlier_;
  };

  /// Waits as long as an image is being kept that has much of this one, and more than any that is kept. `stop`: whether nobody waits for
  /// it any more; then the turn comes soon.
  Turn Take(Sample sample, const std::function<bool()>& stop);

 private:
  bool IsWorthWaiting(const Sample& sample) const;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Image> in_turn_;
  std::deque<Image> kept_;  // the oldest first
};

}  // namespace harrow::migrate
