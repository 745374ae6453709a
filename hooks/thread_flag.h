// A flag of each thread that is set for as long as a scope lasts. `Name`
// distinguishes the flags.
#ifndef EBBTIDE_HOOKS_THREAD_FLAG_H_
#define EBBTIDE_HOOKS_THREAD_FLAG_H_

namespace ebbtide {

template <typename Name>
class ThreadFlag {
 public:
  ThreadFlag() : outer_(is_set_) { is_set_ = true; }
  ~ThreadFlag() { is_set_ = outer_; }
  ThreadFlag(const ThreadFlag&) = delete;
  ThreadFlag& operator=(const ThreadFlag&) = delete;

  static bool IsSet() { return is_set_; }

 private:
  // Read several times per op; so few bytes fit into what the loader keeps free
  // for libraries that are opened late.
  [[gnu::tls_model("initial-exec")]] static inline thread_local bool is_set_ =
      false;
  bool outer_;
};

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_THREAD_FLAG_H_
