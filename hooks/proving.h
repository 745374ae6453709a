// A per-thread flag around what proves that an op or a recipe repeats: the
// memory that it takes may be refused, because the step must not exceed its
// budget for a proof that a later step can have.
#ifndef EBBTIDE_HOOKS_PROVING_H_
#define EBBTIDE_HOOKS_PROVING_H_

namespace ebbtide {

class Proving {
 public:
  Proving() : outer_(proving_) { proving_ = true; }
  ~Proving() { proving_ = outer_; }
  Proving(const Proving&) = delete;
  Proving& operator=(const Proving&) = delete;

  static bool IsSet() { return proving_; }

 private:
  static inline thread_local bool proving_ = false;
  bool outer_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_PROVING_H_
