#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/steps/step.h"
#include "store/store.h"

namespace harrow::agent {

/// The files of the flow that this node holds. From any thread.
class FileHost {
 public:
  virtual ~FileHost() = default;
  virtual store::Store& store() = 0;
  /// Does it on a thread that has the store's descriptors, which a slot's has not, and waits for it.
  virtual void Outside(const std::function<void()>& work) = 0;
  /// A temporary file is about to be made there, beside a result that is copied out.
  virtual void NoteTemporary(const std::string& path) = 0;
  /// What of their modes files in the submit directory are not given.
  virtual uint32_t umask() const = 0;
  /// The content of a file that is here whole.
  virtual std::optional<store::Object> ObjectOf(FileId file) = 0;
  /// An attempt made the file; it lies in the store.
  virtual void Made(FileId file, const store::Object& object) = 0;
  struct Awaited {
    uint32_t inputs = 0;    // not here yet: who made this is told of each
    std::string trouble{};  // why one of them will not come; empty: they may
  };
  virtual Awaited Await(const LocalTask& task) = 0;
  /// It does not wait any more.
  virtual void Forget(const LocalTask& task) = 0;
  /// Between these what is taken into the store stays there, also before it is a file's.
  virtual uint64_t BeginTaking() = 0;
  virtual void EndTaking(uint64_t taking) = 0;
  /// What was taken into the store is no file's after all.
  virtual void Discard(const store::ObjectId& object) = 0;
  /// Its content is not what it was, and has been dropped.
  virtual void Spoiled(FileId file) = 0;
  /// How often that was found out of a content: who read it meanwhile may have read something else.
  virtual uint32_t Spoilings(const store::ObjectId& object) = 0;
};

/// The directory of an attempt on its node's disk: its inputs lie there, as links to objects of the store;
/// its outputs become objects when it succeeds, and results are copied to the submit directory. Everything
/// else in it is dropped. For tasks that ask for it (LocalTask::sandbox).
class Sandbox : public Step {
 public:
  /// `files`: set before the first task that asks for a sandbox. `fenced`: the attempt may have begun
  /// elsewhere since its process ended (fence_page.cc): nothing of it gets a name in the submit directory any
  /// more.
  Sandbox(FileHost* const& files, std::function<bool()> fenced) : files_(files), fenced_(std::move(fenced)) {}

  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

 private:
  Status MakeReady(Launch* launch, TaskResult* result);
  void PutAway(const LocalTask& task, TaskResult* result);
  Status PlaceInputs(const LocalTask& task, TaskResult* result);
  void LinkPrograms(const LocalTask& task);
  void LookAtInputs(const LocalTask& task, TaskResult* result);
  uint64_t BytesOfOutputs(const LocalTask& task) const;
  void TakeOutputs(const LocalTask& task, TaskResult* result);
  void NameUndeclared(const LocalTask& task, TaskResult* result);
  /// What a failed command may have looked for in vain.
  void NameMissing(const LocalTask& task, TaskResult* result) const;

  FileHost* const& files_;
  const std::function<bool()> fenced_;
  struct Placed {
    store::ObjectId object{};
    uint32_t spoilings = 0;  // of it, before it was placed
  };
  std::string path_;            // of the attempt's; empty: none
  std::vector<Placed> placed_;  // its inputs
};

}  // namespace harrow::agent
