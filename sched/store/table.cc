#include "store/table.h"

#include <algorithm>
#include <utility>

namespace harrow::store {

Row* Table::Find(const ObjectId& id) {
  const auto it = rows_.find(id);
  return it == rows_.end() ? nullptr : &it->second;
}

const Row* Table::Find(const ObjectId& id) const {
  const auto it = rows_.find(id);
  return it == rows_.end() ? nullptr : &it->second;
}

Row& Table::BeginSettling(const ObjectId& id) {
  Row& row = rows_[id];
  row.state = Row::State::kSettling;
  return row;
}

void Table::Settled(const ObjectId& id, const Row& what) {
  Row& row = rows_[id];
  row.state = Row::State::kWhole;
  row.named = what.named;
  row.in_objects = what.in_objects;
  row.length = what.length;
  row.bytes = what.bytes;
  row.inode = what.inode;
  row.charge = what.charge;
  row.parts = what.parts;
  row.complete_at = 0;
  ++whole_;
  used_ += what.charge;
  if (what.parts == nullptr) return;
  for (const Object& part : *what.parts) ++rows_[part.id].users;
}

uint64_t Table::Gone(const ObjectId& id) {
  const auto it = rows_.find(id);
  if (it == rows_.end()) return 0;
  Row& row = it->second;
  const uint64_t charge = row.charge;
  used_ -= charge;
  row.state = Row::State::kAbsent;
  row.named = false;
  row.charge = 0;
  if (row.users == 0 && row.pins == 0) rows_.erase(it);
  return charge;
}

bool Table::Kept(const ObjectId& id) const {
  const Row* row = Find(id);
  return row != nullptr && row->state == Row::State::kWhole && (row->named || row->users > 0);
}

bool Table::Complete(const ObjectId& id) const {
  if (!Kept(id)) return false;
  const Row* row = Find(id);
  if (row->parts == nullptr || row->complete_at == losses_) return true;
  for (const Object& part : *row->parts) {
    const Row* other = Find(part.id);
    if (other == nullptr || other->state != Row::State::kWhole) return false;
  }
  SetComplete(*row);
  return true;
}

void Table::Unpin(const ObjectId& id, Removals* removals) {
  Row* row = Find(id);
  if (row == nullptr || row->pins == 0) return;
  --row->pins;
  Release(id, removals);
}

void Table::Unname(const ObjectId& id, Removals* removals) {
  Row* row = Find(id);
  if (row == nullptr || row->state != Row::State::kWhole) return;
  Unspare(row);
  row->named = false;
  Release(id, removals);
}

void Table::Spare(const ObjectId& id) {
  Row* row = Find(id);
  if (row == nullptr || row->state != Row::State::kWhole || !row->named || row->spare != 0) return;
  row->spare = ++sparings_;
  spares_[row->spare] = id;
  spare_ += row->charge;
}

void Table::Name(Row* row) {
  Unspare(row);
  row->named = true;
}

void Table::Unspare(Row* row) {
  if (row->spare == 0) return;
  spares_.erase(std::exchange(row->spare, 0));
  spare_ -= row->charge;
}

bool Table::GiveUpSpare(Removals* removals) {
  if (spares_.empty()) return false;
  Unname(ObjectId(spares_.begin()->second), removals);
  return true;
}

void Table::Release(const ObjectId& id, Removals* removals) {
  const auto it = rows_.find(id);
  if (it == rows_.end()) return;
  Row& row = it->second;
  if (row.named || row.users > 0 || row.pins > 0) return;
  if (row.state == Row::State::kWhole) {
    Remove(id, &row, removals);
  } else if (row.state == Row::State::kAbsent) {
    rows_.erase(it);
  }
}

void Table::Remove(const ObjectId& id, Row* row, Removals* removals) {
  Unspare(row);
  row->state = Row::State::kSettling;
  row->named = false;
  --whole_;
  if (row->users > 0) ++losses_;
  removals->push_back({id, row->in_objects});
  const std::shared_ptr<const std::vector<Object>> parts = std::move(row->parts);
  row->parts = nullptr;
  if (parts == nullptr) return;
  for (const Object& part : *parts) {
    --rows_[part.id].users;
    Release(part.id, removals);
  }
}

void Table::Spoiled(const ObjectId& id, Removals* removals) {
  Row* row = Find(id);
  if (row == nullptr) return;
  std::vector<ObjectId> holders;
  for (auto other = rows_.begin(); row->users > 0 && other != rows_.end(); ++other) {
    const auto& parts = other->second.parts;
    if (other->second.state != Row::State::kWhole || parts == nullptr) continue;
    const auto it =
        std::lower_bound(parts->begin(), parts->end(), id,
                         [](const Object& part, const ObjectId& wanted) { return part.id < wanted; });
    if (it != parts->end() && it->id == id) holders.push_back(other->first);
  }
  if (row->state == Row::State::kWhole) Remove(id, row, removals);
  for (const ObjectId& holder : holders) Remove(holder, Find(holder), removals);
}

std::vector<Object> Table::Named() const {
  std::vector<Object> out;
  for (const auto& [id, row] : rows_) {
    if (row.state == Row::State::kWhole && row.named) out.push_back({id, row.bytes});
  }
  return out;
}

std::vector<ObjectId> Table::Orphans() const {
  std::vector<ObjectId> out;
  for (const auto& [id, row] : rows_) {
    if (row.state == Row::State::kWhole && !row.named && row.users == 0 && row.pins == 0) out.push_back(id);
  }
  return out;
}

bool Table::SanityCheck() const {
  uint64_t whole = 0, used = 0, spare = 0, spares = 0;
  std::unordered_map<ObjectId, uint32_t> users;
  for (const auto& [id, row] : rows_) {
    used += row.charge;
    if (row.spare != 0) {
      const auto it = spares_.find(row.spare);
      if (it == spares_.end() || it->second != id || !row.named) return false;
      spare += row.charge;
      ++spares;
    }
    if (row.state == Row::State::kAbsent && (row.named || (row.users == 0 && row.pins == 0))) return false;
    if (row.state != Row::State::kWhole) continue;
    ++whole;
    if (row.parts == nullptr) continue;
    for (const Object& part : *row.parts) ++users[part.id];
  }
  for (const auto& [id, row] : rows_) {
    const auto it = users.find(id);
    if (row.users != (it == users.end() ? 0 : it->second)) return false;
    if (it != users.end()) users.erase(it);
  }
  return users.empty() && whole == whole_ && used == used_ && spare == spare_ && spares == spares_.size();
}

}  // namespace harrow::store
