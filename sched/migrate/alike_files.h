#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/sample.h"

namespace harrow::migrate {

/// What the nodes of a run tell each other of their images: small files in a directory of the shared file system (checkpoint_format.md). One object
/// for each image that is being kept, of one thread. Where the files cannot be written or read, nobody knows of anybody.
class AlikeFiles {
 public:
  static constexpr std::string_view kTurn = "turn";  // instead of an image's name, as long as it is being kept
  static constexpr size_t kRead = 64;  // of the newest images
  static constexpr size_t kMostDigests = 2048;  // of a sample, in a file

  /// Where it lies, beside the directories of tasks; and whose image it is.
  struct Place {
    std::string directory{};
    std::string task{};
  };

  /// Of an image of another task.
  struct Sampled {
    uint64_t one_of = 1;  // of the digests of a Sample: multiples of it
    Sample digests{};
    bool comes = false;  // it was being kept before this one, and its node is heard of
    std::string directory{};  // where it lies; where it comes, or is gone: empty
    /// About how many of the digests of `sample` it has.
    size_t InCommon(const Sample& sample) const;
  };

  /// What files say, by their names, which say it for ever. Of all threads; outlives who uses it.
  class Known {
   public:
    std::shared_ptr<const Sampled> Find(const std::string& name);
    void Add(const std::string& name, std::shared_ptr<const Sampled> sampled);

   private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const Sampled>> by_name_;  // the oldest first
  };

  /// The image is to be kept.
  AlikeFiles(Place place, const Sample& sample, Known* known);
  /// If it is not whole by then, it is not told any more.
  ~AlikeFiles();
  AlikeFiles(const AlikeFiles&) = delete;
  AlikeFiles& operator=(const AlikeFiles&) = delete;

  /// Is to be called now and then, while others may wait for it.
  void Beat(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  std::vector<Sampled> Others();
  /// It is whole, and lies beside in the task's directory, by that name.
  void Done(const std::string& name);

  /// Nothing is told any more of the task's image of that name, or of the one that is being kept (kTurn); empty: of any.
  static void Forget(const Place& place, std::string_view name);

 private:
  std::shared_ptr<const Sampled> Read(const std::string& name) const;

  const Place place_;
  Known& known_;
  std::string time_{}, name_{};  // of its file; empty: there is none
  std::chrono::steady_clock::time_point beat_{};
};

}  // namespace harrow::migrate
