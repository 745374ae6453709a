// The closing line and the report of a process that a signal ends without its
// exit handlers, as they were last kept.
#ifndef EBBTIDE_HOOKS_LAST_WORDS_H_
#define EBBTIDE_HOOKS_LAST_WORDS_H_

#include <string>

namespace ebbtide {

struct LastWords {
  std::string line;    // for standard error, with its newline; empty: none
  std::string report;  // for `file`
  std::string file;    // empty: no report is written
};

// From now on SIGTERM, SIGINT and SIGHUP, as far as they would end this process
// without a handler, write these first. A child of fork ends without them. Not
// thread-safe.
void KeepLastWords(LastWords words);
// The process says them itself, or has nothing to say.
void DropLastWords();

}  // namespace ebbtide

#endif  // EBBTIDE_HOOKS_LAST_WORDS_H_
