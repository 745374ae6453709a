#include "hooks/recognition.h"

namespace ebbtide {

std::optional<uint64_t> Recognition::First() const {
  if (known_.empty()) return std::nullopt;
  return known_.front().signature;
}

std::optional<uint64_t> Recognition::After(int op, uint64_t hash) {
  std::erase_if(known_, [&](const KnownTape& tape) {
    return op >= static_cast<int>(tape.hashes->size()) ||
           (*tape.hashes)[op] != hash;
  });
  return First();
}

std::optional<uint64_t> Recognition::Whole(int ops, uint64_t hash) {
  std::erase_if(known_, [&](const KnownTape& tape) {
    return ops != static_cast<int>(tape.hashes->size()) ||
           (ops > 0 && tape.hashes->back() != hash);
  });
  return First();
}

void Recognition::Exclude(uint64_t signature) {
  std::erase_if(known_, [&](const KnownTape& tape) {
    return tape.signature == signature;
  });
}

}  // namespace ebbtide
