#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "migrate/alike.h"
#include "store/object.h"

namespace harrow::migrate {

/// The checkpoints of one task, in a directory of their own that its attempts have one after the other, on whatever node
/// (checkpoint_format.md). The newest good one counts, and the one before it is kept, too. Of one thread at a time. An attempt whose agent
/// stood for so long that another one has begun changes nothing any more.
class Checkpoints {
 public:
  struct Rules {
    std::vector<std::string> files{};  // patterns of names below files_directory(); empty: all that is there
    bool by_itself = false;            // the program writes when it likes, and may be writing when it ends
    std::string unpacked{};            // a directory of this node's disk, where files lie as they are, and are kept packed (packed.h);
                                       // an attempt writes them at files_directory(), and reads those it goes on from at Begun::restart
    AlikeImages* alike = nullptr;      // of packed files: what other tasks' images have is not kept again. Outlives this
  };
  /// `stop`: whether nobody waits for what takes long any more.
  Checkpoints(std::string directory, Rules rules, std::function<bool()> stop = {});

  /// Where an attempt writes, and what tells it to.
  std::string files_directory() const { return rules_.unpacked.empty() ? Staging() : rules_.unpacked + "/written"; }
  std::string request() const { return directory_ + "/asked"; }
  /// Where it is noted why there is no checkpoint, or why one cannot be gone on from.
  std::string trouble() const { return directory_ + "/trouble"; }

  /// What an attempt goes on from.
  struct Begun {
    std::string restart{};  // a path below files_directory(), or itself; empty: it begins anew
    std::string trouble{};  // why it does not go on from where it might have, for the user
  };
  /// An attempt is about to begin: what it goes on from is put into files_directory(), and nothing else is there.
  Result<Begun> Begin();
  /// The same path, after Begin by another; of an attempt's processes on other nodes.
  std::string Restart() const;

  struct Kept {
    uint64_t files = 0;
    int64_t bytes = 0;
    int64_t written = 0;  // of these, compressed; only of packed ones
    std::string place{};  // its directory, if it is new
    bool news = true;  // else nothing was written since the one that counts, which is told
  };
  /// The attempt has ended: what it left is a good checkpoint from now on. kNotFound, without a place: it left none. `ran`: until its end,
  /// and did not stand.
  Result<Kept> Keep(bool ran = true);

  /// An attempt could not go on from the checkpoint that counts. True: for the
  /// kMostFailures-th time; it does not count any more.
  static constexpr int kMostFailures = 2;
  Result<bool> CountFailure();
  /// None could be gone on from, so that no more are to be made.
  bool IsGivenUp() const;

  Status Ask() const;
  /// The attempt runs, and has for a while.
  void Beat() const;
  /// All of it, also where no attempt was begun.
  Status Remove() const;
  /// What lies in rules.unpacked.
  void Clear() const;

 private:
  struct File {
    std::string name;  // below the directory
    int64_t bytes = 0, time_ns = 0;
    store::ObjectId sum{};  // of its bytes
  };
  struct Good {
    std::string place{};  // its directory
    uint64_t number = 0;  // of this task's
    int64_t time_ns = 0;
    std::vector<File> files{};
  };
  /// Files of one checkpoint.
  struct Set {
    std::vector<File> files{};
    std::string first{};  // the name that an attempt is told
    int64_t time_ns = 0;
  };

  std::string BegunBy() const { return directory_ + "/begun"; }
  /// No other attempt has begun since this one did. Who has begun none is not asked.
  Status StillMine() const;
  Status MakeMine();
  std::string GivenUp() const { return directory_ + "/given-up"; }
  std::string Staging() const { return directory_ + "/files"; }
  std::string PathOf(uint64_t number) const;
  std::string SumsOf(uint64_t number) const;
  std::string FailuresOf(uint64_t number) const;
  /// Of all that have sums, the newest first.
  std::vector<Good> GoodOnes() const;
  static Result<Good> ReadSums(const std::string& place);
  Status WriteSums(const Good& good) const;
  std::vector<File> FilesBelow(const std::string& directory) const;
  /// Those that are whole by their names, the newest first.
  std::vector<Set> SetsOf(const std::vector<File>& files) const;
  std::string RestartOf(const Good& good) const;
  /// `alive_ns`: by the file system's time the attempt lived until then; 0: nobody knows.
  Result<Kept> KeepSet(int64_t alive_ns);
  /// `others`: checkpoints of others that files may be links to.
  Result<Kept> Seal(std::vector<File> files, int64_t time_ns, const std::vector<std::string>& others = {});
  Result<Kept> PackFiles();
  /// A file of the checkpoint has this path, too, so that its sum is known.
  static bool IsLinkOf(const Good& good, const std::string& path, File* file);
  Status Sum(const std::string& path, File* file) const;
  Status Drop(uint64_t number) const;
  /// Puts it where an attempt goes on from, and compares it with what was written.
  Status GiveBack(const Good& good) const;
  Status CopyBack(const Good& good) const;
  /// Empty ones.
  Status MakeFilesDirectories() const;
  bool Stopped() const { return stop_ && stop_(); }
  AlikeFiles::Place AlikePlace() const;

  const std::string directory_;
  const Rules rules_;
  const std::function<bool()> stop_;
  std::string mine_{};  // what BegunBy() says as long as this one has the directory
};

/// Whether a name matches a pattern with *, ? and [...], none of which is a /; `*shown` gets what these stand for.
bool MatchesName(std::string_view pattern, std::string_view name, std::string* shown);

}  // namespace harrow::migrate
