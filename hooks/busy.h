// A per-thread flag around our own tensor work: recorder, pack hooks and
// eviction leave alone what the runtime itself does (cpu-mode.md R7).
#ifndef EBBTIDE_HOOKS_BUSY_H_
#define EBBTIDE_HOOKS_BUSY_H_

namespace ebbtide {

class Busy {
 public:
  Busy() : outer_(busy_) { busy_ = true; }
  ~Busy() { busy_ = outer_; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  static bool IsSet() { return busy_; }

 private:
  // Read several times per op; so few bytes fit into what the loader keeps free
  // for libraries that are opened late.
  [[gnu::tls_model("initial-exec")]] static inline thread_local bool busy_ =
      false;
  bool outer_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_BUSY_H_
