#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/steps/sandbox.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {

/// The files of a flow in a store on the disk; what is told of them is kept for the test.
class HeldFiles : public FileHost {
 public:
  void Open(const std::string& directory, uint64_t limit) {
    store_.reset();
    store_ = *store::Store::Open(directory, {.limit = limit});
  }
  /// A file of the flow with that content.
  void Put(uint32_t file, const std::string& source) { held[FileId(file)] = *store_->CopyIn(source); }

  store::Store& store() override { return *store_; }
  void Outside(const std::function<void()>& work) override {
    ++outside;
    work();
  }
  void NoteTemporary(const std::string& path) override { temporaries.push_back(path); }
  uint32_t umask() const override { return 027; }
  std::optional<store::Object> ObjectOf(FileId file) override {
    return held.contains(file) ? std::optional(held[file]) : std::nullopt;
  }
  void Made(FileId file, const store::Object& object) override { made[file.value] = object; }
  Awaited Await(const LocalTask&) override { return {}; }
  void Forget(const LocalTask&) override {}
  uint64_t BeginTaking() override { return ++takings; }
  void EndTaking(uint64_t taking) override { ended_takings += taking; }
  void Discard(const store::ObjectId& object) override { discarded.push_back(object); }
  void Spoiled(FileId file) override {
    spoiled.push_back(file.value);
    if (held.contains(file)) ++spoilings[held[file].id];
  }
  uint32_t Spoilings(const store::ObjectId& object) override { return spoilings[object]; }

  std::map<FileId, store::Object> held;
  std::map<store::ObjectId, uint32_t> spoilings;
  std::map<uint32_t, store::Object> made;
  std::vector<store::ObjectId> discarded;
  std::vector<uint32_t> spoiled;
  std::vector<std::string> temporaries;
  int outside = 0;
  uint64_t takings = 0, ended_takings = 0;

 private:
  std::unique_ptr<store::Store> store_;
};

class SandboxTest : public StepOnDisk {
 protected:
  SandboxTest() { files_.Open(At("store"), 0); }
  /// A file of the flow that the task reads.
  void AddInput(uint32_t file, const std::string& path, const std::string& text) {
    files_.Put(file, Write("source/" + path, text));
    task_.inputs.push_back({.file = FileId(file), .path = path});
  }
  void AddOutput(uint32_t file, const std::string& path, bool result = false) {
    task_.outputs.push_back(path);
    task_.output_files.push_back(FileId(file));
    task_.output_results.push_back(result);
  }
  Status Begin() {
    task_.sandbox = true;
    return Prepare(step_);
  }
  /// A file or, without a text, a directory that the task leaves there.
  void Leave(const std::string& name, const std::optional<std::string>& text = std::nullopt) const {
    const std::filesystem::path path = launch_->sandbox + "/" + name;
    std::filesystem::create_directories(text ? path.parent_path() : path);
    if (text) std::ofstream(path) << *text;
  }
  std::string Inside(const std::string& name) const { return TextAt(launch_->sandbox + "/" + name); }
  bool IsInside(const std::string& name) const {
    return std::filesystem::exists(std::filesystem::symlink_status(launch_->sandbox + "/" + name));
  }
  bool NoSandboxIsLeft() const { return std::filesystem::is_empty(At("store/sandboxes")); }
  /// As one who may write to anything does.
  void ChangeInStore(uint32_t file) {
    const std::string name = files_.held[FileId(file)].id.Text();
    const std::string path = At("store/objects/" + name.substr(0, 2) + "/" + name);
    ASSERT_TRUE(std::filesystem::exists(path));
    chmod(path.c_str(), 0600);
    std::ofstream(path, std::ios::app) << "changed";
  }

  HeldFiles files_;
  FileHost* host_ = &files_;
  bool fenced_ = false;
  Sandbox step_{host_, [this] { return fenced_; }};
};

}  // namespace harrow::agent
