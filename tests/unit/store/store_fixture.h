#pragma once

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "store/hasher.h"
#include "store/listing.h"
#include "store/store.h"

namespace harrow::store {

namespace fs = std::filesystem;

/// A store and a directory of the user's beside it, on the disk that temporary files are on.
class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string path = (fs::temp_directory_path() / "harrow-store-XXXXXX").string();
    top_ = mkdtemp(path.data());
    Open();
  }
  ~StoreTest() override {
    store_.reset();
    fs::remove_all(top_);
  }

  std::string Root() const { return top_ + "/store"; }
  void Open(Options options = {}) {
    store_.reset();
    Result<std::unique_ptr<Store>> opened = Store::Open(Root(), options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    store_ = std::move(*opened);
  }
  /// A path outside of the store.
  std::string At(const std::string& name) const { return top_ + "/user/" + name; }
  std::string Write(const std::string& name, std::string_view text, mode_t mode = 0644) const {
    return WriteAt(At(name), text, mode);
  }
  static std::string WriteAt(const std::string& path, std::string_view text, mode_t mode = 0644) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return "(absent)";
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  /// A hard link: what is written to it is written to the object. Not so where the disk has reflinks.
  static bool Linked(const std::string& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 && info.st_nlink > 1;
  }
  template <class T>
  static T Checked(Result<T> result) {
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *std::move(result) : T();
  }
  static void Ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  Object CopyIn(const std::string& path) { return Checked(store_->CopyIn(path)); }
  Object Take(std::string_view text) { return CopyIn(Write("taken", text)); }
  std::string Sandbox(const std::string& name = "s") { return Checked(store_->MakeSandbox(name)); }
  std::string ObjectFile(const ObjectId& id, const char* folder = "objects") const {
    const std::string name = id.Text();
    return StrCat(Root(), "/", folder, "/", name.substr(0, 2), "/", name);
  }
  /// Files anywhere below a directory of the store's.
  size_t Files(const std::string& folder) const {
    size_t count = 0;
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(Root() + "/" + folder)) {
      count += !e.is_directory() || e.is_symlink();
    }
    return count;
  }
  std::string ReadText(const ObjectId& id) {
    Result<std::unique_ptr<Reader>> reader = store_->Read(id);
    if (!reader.ok()) return "(" + reader.status().message() + ")";
    std::string text(static_cast<size_t>((*reader)->bytes()), '\0');
    EXPECT_EQ(pread((*reader)->fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }
  static Object FileObject(std::string_view text, Kind kind = Kind::kFile) {
    return {IdOf(text, kind), static_cast<int64_t>(text.size())};
  }
  Status Deliver(const Object& object, std::string_view text, bool part = false) {
    Result<std::unique_ptr<Arrival>> arrival = store_->Begin(object, part);
    if (!arrival.ok()) return arrival.status();
    HARROW_RETURN_IF_ERROR((*arrival)->Write(0, text));
    return (*arrival)->Finish();
  }

  std::string top_;
  std::unique_ptr<Store> store_;
};

}  // namespace harrow::store
