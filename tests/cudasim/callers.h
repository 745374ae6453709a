// The caller of the simulator.
#ifndef EBBTIDE_TESTS_CUDASIM_CALLERS_H_
#define EBBTIDE_TESTS_CUDASIM_CALLERS_H_

#include <string>

namespace cudasim {

// The code that this thread is in, from the caller of the stand-ins outward, at
// most so many pieces, each as LIBRARY+OFFSET in hexadecimal digits, with a
// space between them.
std::string Callers(int most);

}  // namespace cudasim

#endif  // EBBTIDE_TESTS_CUDASIM_CALLERS_H_
