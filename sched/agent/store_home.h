#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/source_index.h"
#include "base/status.h"
#include "store/store.h"

namespace harrow::agent {

/// Where a node's store lies: in the temporary directory of its agents, with which it goes, or in one that
/// outlives the run (it *lasts*), where what it holds of the submit directory is found by later runs.
class StoreHome {
 public:
  struct Options {
    // A directory that nobody else could replace, for those that last; empty: there is none.
    std::string base{};
    bool of_job = false;    // `base` is the job's, and goes with it
    std::string tmp{};      // of the agents; empty: there is none
    std::string node{};     // its name
    std::string session{};  // of the run
    uint64_t limit = 0;     // store::Options
    enum class Use : uint8_t {
      kRun,    // one that lasts where there is one, or the job's directory takes one; else none that lasts
      kStage,  // one that lasts; kInvalid: there is no `base`; kUnavailable: another run has it
      kDrop,   // one that lasts is opened, and removed by Close; kNotFound: there is none
    } use = Use::kRun;
  };
  static Result<std::unique_ptr<StoreHome>> Open(const Options& options);
  /// In `base`, of that node and this user.
  static std::string LastingPath(const std::string& base, const std::string& node);

  store::Store& store() { return *store_; }
  /// Null: it does not last.
  SourceIndex* sources() { return sources_.get(); }
  /// Null: it is to be dropped.
  HeldLog* log() { return log_.get(); }
  /// What an agent of this session before this one held.
  const HeldLog::Held& held() const { return held_; }
  /// Earlier runs have been there.
  bool found() const { return found_; }
  /// For people: why what earlier runs left is not used; empty: it is, or there is none.
  const std::string& notice() const { return notice_; }
  /// Of a store that lasts, the files below that directory that are still what they were: the first of them,
  /// as many as a message may name. Looks at each; slow.
  std::vector<SourceIndex::Entry> FindUnchanged(const std::string& below) const;
  /// What was opened to be dropped is removed, and of what lasts all that no later run can find. No other
  /// call is allowed afterwards.
  void Close();

 private:
  std::string directory_, notice_;
  bool found_ = false, drop_ = false;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<SourceIndex> sources_;
  std::unique_ptr<HeldLog> log_;
  HeldLog::Held held_;
};

}  // namespace harrow::agent
