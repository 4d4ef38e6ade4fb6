#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "migrate/alike_files.h"
#include "migrate/sample.h"

namespace harrow::migrate {

/// The images that a node keeps, as far as others may have contents of theirs, and those of other nodes (alike.cc). Of all threads; outlives its
/// turns.
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
    Turn(Turn&& other) noexcept
        : of_(std::exchange(other.of_, nullptr)), image_(other.image_), files_(std::move(other.files_)), earlier_(std::move(other.earlier_)) {}
    Turn& operator=(Turn&&) = delete;
    /// Where images of others lie that have contents of this one (packed.h), the closest first. They may be gone by the time they are read.
    const std::vector<std::string>& earlier() const { return earlier_; }
    /// Is to be called now and then, so that other nodes wait for the image.
    void Beat() {
      if (files_) files_->Beat();
    }
    /// The image is whole, and lies in this directory.
    void Done(std::string directory);

   private:
    friend class AlikeImages;
    Turn(AlikeImages* of, std::list<Image>::iterator image, std::unique_ptr<AlikeFiles> files)
        : of_(of), image_(image), files_(std::move(files)) {}

    AlikeImages* of_;
    std::list<Image>::iterator image_;
    std::unique_ptr<AlikeFiles> files_;  // null: other nodes are told nothing
    std::vector<std::string> earlier_;
  };

  /// Waits as long as an image is being kept that has much of this one, and more than any that is kept. `stop`: whether nobody waits for
  /// it any more; then the turn comes soon. `place`: where nodes tell each other of their images; none: they do not.
  Turn Take(Sample sample, const std::function<bool()>& stop, const AlikeFiles::Place& place = {});

 private:
  using Others = std::vector<AlikeFiles::Sampled>;
  bool IsWorthWaiting(const Sample& sample, const Others& others) const;
  std::vector<std::string> Closest(const Sample& sample, const Others& others) const;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Image> in_turn_;
  std::deque<Image> kept_;  // the oldest first
  AlikeFiles::Known known_;
};

}  // namespace harrow::migrate
