#include "tests/cudasim/hazards.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace cudasim {
namespace {

uintptr_t Number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

bool Ordered(const Op& later, OpId earlier) {
  if (later.id.stream == earlier.stream) return true;  // noted before
  return later.behind->Includes(earlier);
}

std::string Piece(uintptr_t begin, uintptr_t end, uint64_t generation) {
  char text[96];
  snprintf(text, sizeof text, "block %llu [0x%llx, 0x%llx)",
           static_cast<unsigned long long>(generation),  // NOLINT: %llu
           static_cast<unsigned long long>(begin),       // NOLINT: %llx
           static_cast<unsigned long long>(end));        // NOLINT: %llx
  return text;
}

std::string Accessor(const char* name, bool write, OpId op) {
  return std::string(name) + (write ? " (writes" : " (reads") + " on stream " +
         std::to_string(op.stream) + ", op " + std::to_string(op.number) + ")";
}

}  // namespace

void Hazards::Taken(const void* begin, size_t size, Stream* stream) {
  const uintptr_t first = Number(begin);
  Block block{first + size, ++generations_, false, stream, {}, {}};
  CarveOut(first, block.end, &block.former);
  blocks_[first] = std::move(block);
}

// Removes what overlaps [begin, end), and collects its uses. An allocator may
// split or join pieces, so the rest of a freed one stays with its own uses.
void Hazards::CarveOut(uintptr_t begin, uintptr_t end,
                       std::vector<Use>* former) {
  auto at = blocks_.upper_bound(begin);
  if (at != blocks_.begin()) --at;
  while (at != blocks_.end() && at->first < end) {
    if (at->second.end <= begin) {
      ++at;
      continue;
    }
    const uintptr_t old_begin = at->first;
    Block old = std::move(at->second);
    at = blocks_.erase(at);
    // Older uses first: a later one of the same stream replaces them.
    for (const auto* uses : {&old.former, &old.uses}) {
      for (const Use& use : *uses) {
        if (use.begin < end && begin < use.end) AddUse(former, use);
      }
    }
    if (old.end > end) {
      Block tail = old;
      at = blocks_.emplace(end, std::move(tail)).first;
    }
    if (old_begin < begin) {
      old.end = begin;
      blocks_.emplace(old_begin, std::move(old));
    }
  }
}

void Hazards::Gone(const void* begin, size_t size) {
  std::vector<Use> dropped;
  CarveOut(Number(begin), Number(begin) + size, &dropped);
}

std::string Hazards::Unmapped(const void* begin, size_t size,
                              const Order& host) {
  std::vector<Use> dropped;
  CarveOut(Number(begin), Number(begin) + size, &dropped);
  for (const Use& use : dropped) {
    if (host.Includes(use.op)) continue;
    return Note(Piece(use.begin, use.end, use.generation) +
                " loses a page before " +
                Accessor(use.name, use.write, use.op) + " is known to be over");
  }
  return "";
}

Stream* Hazards::StreamOf(const void* begin) const {
  const auto found = blocks_.find(Number(begin));
  return found == blocks_.end() ? nullptr : found->second.stream;
}

std::string Hazards::Freed(const void* begin, const Order* behind) {
  const auto found = blocks_.find(Number(begin));
  if (found == blocks_.end()) return "";
  Block& block = found->second;
  block.free = true;
  if (behind == nullptr || block.stream == nullptr) return "";
  for (const Use& use : block.uses) {
    if (use.op.stream == block.stream->id || behind->Includes(use.op)) continue;
    return Note(Piece(found->first, block.end, block.generation) +
                " was freed for stream " + std::to_string(block.stream->id) +
                ", which is not ordered behind " +
                Accessor(use.name, use.write, use.op));
  }
  return "";
}

std::string Hazards::Check(const Op& op) {
  std::string first;
  for (const Access& access : op.work.accesses) {
    if (access.size == 0 || blocks_.empty()) continue;
    const uintptr_t begin = Number(access.begin);
    const Use use{op.id, op.work.name,        access.write,
                  begin, begin + access.size, 0};
    auto at = blocks_.upper_bound(begin);
    if (at != blocks_.begin()) --at;
    for (; at != blocks_.end() && at->first < use.end; ++at) {
      if (at->second.end <= begin) continue;
      std::string message = CheckBlock(at->first, &at->second, use, op);
      if (first.empty()) first = std::move(message);
    }
  }
  return first;
}

std::string Hazards::CheckBlock(uintptr_t begin, Block* block, const Use& use,
                                const Op& op) {
  std::string message;
  const std::string name = block->free || !block->former.empty()
                               ? Accessor(use.name, use.write, use.op) +
                                     " of " +
                                     Piece(begin, block->end, block->generation)
                               : "";
  if (block->free) {
    message = Note(name + " comes after it was freed" +
                   (block->uses.empty() ? ""
                                        : "; its last access was " +
                                              Accessor(block->uses.back().name,
                                                       block->uses.back().write,
                                                       block->uses.back().op)));
  }
  std::erase_if(block->former, [&](const Use& old) {
    const bool apart = use.end <= old.begin || old.end <= use.begin;
    if (apart || Ordered(op, old.op)) return false;
    if (message.empty()) {
      message = Note(name + " is not ordered behind " +
                     Accessor(old.name, old.write, old.op) + " of " +
                     Piece(old.begin, old.end, old.generation) +
                     ", which was freed and lies in the same bytes");
    }
    return true;  // said once
  });
  Use noted = use;
  noted.generation = block->generation;
  AddUse(&block->uses, noted);
  return message;
}

// A later op of the same stream stands for the earlier one.
void Hazards::AddUse(std::vector<Use>* uses, const Use& use) {
  std::erase_if(*uses, [&](const Use& old) {
    return old.op.stream == use.op.stream && use.begin <= old.begin &&
           old.end <= use.end;
  });
  uses->push_back(use);
}

void Hazards::Forget(const Order& host) {
  const auto known = [&](const Use& use) { return host.Includes(use.op); };
  for (auto& [begin, block] : blocks_) {
    std::erase_if(block.uses, known);
    std::erase_if(block.former, known);
  }
}

std::string Hazards::Note(std::string message) {
  messages_.push_back(message);
  return message;
}

void Hazards::Clear() {
  blocks_.clear();
  messages_.clear();
}

}  // namespace cudasim
