#ifndef EBBTIDE_CLI_TIMELINE_PAGE_H_
#define EBBTIDE_CLI_TIMELINE_PAGE_H_

namespace ebbtide {

// The whole page of `ebbtide timeline`, which loads nothing else. The first
// "/*DATA*/" stands for what TimelineToJson returns.
extern const char kTimelinePage[];

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_TIMELINE_PAGE_H_
