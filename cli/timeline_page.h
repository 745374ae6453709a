#ifndef EBBTIDE_CLI_TIMELINE_PAGE_H_
#define EBBTIDE_CLI_TIMELINE_PAGE_H_

namespace ebbtide {

// The whole pages of `ebbtide timeline`, which load nothing else: that of a
// run, where the first "/*DATA*/" stands for what TimelineToJson returns, and
// that of two, where it stands for what TimelinesToJson does.
extern const char kTimelinePage[];
extern const char kComparisonPage[];

}  // namespace ebbtide

#endif  // EBBTIDE_CLI_TIMELINE_PAGE_H_
