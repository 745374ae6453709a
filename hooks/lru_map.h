// A map of bounded size: what was used least recently makes room.
//
// Not thread-safe. All calls are O(1).
#ifndef EBBTIDE_HOOKS_LRU_MAP_H_
#define EBBTIDE_HOOKS_LRU_MAP_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ebbtide {

template <typename Value>
class LruMap {
 public:
  // At least one value is kept.
  explicit LruMap(size_t bound) : bound_(bound) {}

  // The value of `key`, a new one where there is none, which becomes the one
  // used last. References stay valid until their value makes room.
  Value& Use(uint64_t key) {
    if (const auto found = places_.find(key); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front().second;
    }
    while (!entries_.empty() && entries_.size() >= bound_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, Value{});
    places_[key] = entries_.begin();
    return entries_.front().second;
  }

  // nullptr where there is none; changes no order.
  Value* Find(uint64_t key) {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second->second;
  }
  const Value* Find(uint64_t key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second->second;
  }

  // Keys and values, those used last first.
  std::list<std::pair<uint64_t, Value>>& entries() { return entries_; }
  const std::list<std::pair<uint64_t, Value>>& entries() const {
    return entries_;
  }

  size_t size() const { return entries_.size(); }
  size_t bound() const { return bound_; }
  // Takes effect with the next new key.
  void SetBound(size_t bound) { bound_ = bound; }

 private:
  using Entries = std::list<std::pair<uint64_t, Value>>;

  size_t bound_;
  Entries entries_;
  absl::flat_hash_map<uint64_t, typename Entries::iterator> places_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_LRU_MAP_H_
