#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "cli/system_view.h"

namespace ebbtide {
namespace {

using testing::HasSubstr;
using State = Finding::State;

// A machine with everything.
SystemView Healthy() {
  SystemView view;
  view.preload = "/lib/libebbtide_preload.so";
  view.built_for = {"2.11.0+cu130", "2.15.0"};
  view.python = {.path = "/usr/bin/python",
                 .version = "3.11.2",
                 .torch = "2.11.0",
                 .torch_cuda = "13.0",
                 .entry_points = {"ebbtide=ebbtide._entry:start"},
                 .driver = 13000,
                 .devices = {"Card, 80.00 GiB"},
                 .has_cupti = true};
  view.driver = {.file = "/lib/libcuda.so.580.1", .version = 13000};
  view.spill = {.folder = "/tmp",
                .file_system = "ext4",
                .is_direct = true,
                .free = Bytes{int64_t{1} << 40},
                .out = 1.5,
                .back = 2};
  view.ram = Bytes{int64_t{1} << 36};
  view.pinned = {Bytes{int64_t{1} << 35}, "free RAM"};
  return view;
}

SystemView With(const std::function<void(SystemView*)>& change) {
  SystemView view = Healthy();
  change(&view);
  return view;
}

SystemView WithVariable(const std::string& name, const std::string& value) {
  return With([&](SystemView* view) { view->variables[name] = value; });
}

// The findings that are not ok.
std::vector<Finding> Bad(const SystemView& view) {
  std::vector<Finding> bad;
  for (const Finding& finding : Diagnose(view)) {
    if (finding.state != State::kOk) bad.push_back(finding);
  }
  return bad;
}

TEST(DoctorTest, OnAHealthyMachineEveryLineIsOk) {
  for (const Finding& finding : Diagnose(Healthy())) {
    EXPECT_EQ(finding.state, State::kOk) << finding.name << finding.what;
    EXPECT_EQ(finding.advice, "");
    EXPECT_NE(finding.what, "");
  }
  EXPECT_TRUE(IsFit(Diagnose(Healthy())));
}

TEST(DoctorTest, AnyVersionThatTheWheelIsForIsOk) {
  const SystemView view =
      With([](SystemView* v) { v->python.torch = "2.15.1+cpu"; });
  EXPECT_TRUE(Bad(view).empty());
}

struct Case {
  SystemView view;
  State state;
  bool is_needed;
  const char* name;
  const char* what;
  const char* advice;
};

// Each view differs from the healthy one in one thing and has one bad line.
TEST(DoctorTest, WhatIsWrongIsNamedAndWhatToDoIsSaid) {
  const auto with = With;
  constexpr State kLimited = State::kLimited;
  constexpr State kMissing = State::kMissing;
  const Case cases[] = {
      {with([](auto* v) {
         v->preload.clear();
         v->preload_problem = "no libebbtide_preload.so at ..";
       }),
       kMissing, true, "library", "no libebbtide_preload.so", "install"},
      {with([](auto* v) { v->python = {}; }), kLimited, false, "python",
       "no python on PATH", "by its path"},
      {with([](auto* v) {
         v->python = {.path = "/p", .problem = "it does not start"};
       }),
       kMissing, true, "python", "/p: it does not start", "make it start"},
      {with([](auto* v) {
         v->python.torch.clear();
         v->python.torch_problem = "ModuleNotFoundError: No module";
       }),
       kMissing, true, "torch", "ModuleNotFoundError", "install torch 2.11"},
      {with([](auto* v) { v->python.torch = "2.10.1"; }), kMissing, true,
       "torch", "ebbtide was built for 2.11, 2.15", "install torch 2.11, 2.15"},
      {with([](auto* v) { v->built_for.clear(); }), kLimited, false, "torch",
       "2.11.0, for CUDA 13.0", "install the wheel again"},
      {with([](auto* v) { v->python.entry_points.clear(); }), kLimited, false,
       "entry point", "not installed for this python", "`ebbtide run`"},
      {with([](auto* v) { v->python.entry_points.push_back("xpu=x:y"); }),
       kLimited, false, "other backends", "xpu=x:y", "closing line"},
      {WithVariable("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"), kMissing, true,
       "autoload", "TORCH_DEVICE_BACKEND_AUTOLOAD=0", "unset it"},
      {with([](auto* v) { v->python.torch_cuda.clear(); }), kMissing, false,
       "CUDA", "this torch is for CPU", "nothing for CPU mode"},
      {with([](auto* v) {
         v->driver = {.problem = "libcuda.so.1: cannot open"};
         v->python.driver = 0;
         v->python.devices.clear();
       }),
       kMissing, false, "driver", "no CUDA driver: libcuda.so.1: cannot open",
       "nothing for CPU mode"},
      {with([](auto* v) {
         v->driver.problem = "cuInit failed with CUDA_ERROR_UNKNOWN (999)";
         v->python.driver = 0;
       }),
       kMissing, false, "driver",
       "/lib/libcuda.so.580.1: cuInit failed with CUDA_ERROR_UNKNOWN (999)",
       "nvidia-smi"},
      {with([](auto* v) { v->python.devices.clear(); }), kMissing, false,
       "device", "torch sees no CUDA device", "CUDA_VISIBLE_DEVICES"},
      {with([](auto* v) {
         v->python.devices.clear();
         v->python.devices_problem = "RuntimeError: too old";
       }),
       kMissing, false, "device", "too old", "the driver fits"},
      {with([](auto* v) { v->python.has_cupti = false; }), kMissing, false,
       "CUPTI", "does not open", "nvidia-cuda-cupti"},
      {with([](auto* v) {
         v->pinned = {Bytes{0}, "the memory cgroup"};
       }),
       kMissing, false, "pinned memory", "bounded by the memory cgroup",
       "raise that bound"},
      {with([](auto* v) { v->memlock = Bytes{64 << 10}; }), kLimited, false,
       "memlock", "64.00 KiB", "ulimit -l"},
      {with([](auto* v) { v->spill.problem = "/dev/shm: on tmpfs"; }), kLimited,
       false, "offloading", "on tmpfs", "EBBTIDE_OFFLOAD_DIR"},
      {with([](auto* v) { v->spill.is_direct = false; }), kLimited, false,
       "offloading", "through the page cache", "O_DIRECT"},
      {WithVariable("EBBTIDE_OFFLOAD_DIR", "none"), kLimited, false,
       "offloading", "forbids it", "unset it"},
      {WithVariable("LD_PRELOAD", "/lib/libjemalloc.so.2"), kLimited, false,
       "LD_PRELOAD", "libjemalloc", "resident memory"},
      {WithVariable("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
       kLimited, false, "PYTORCH_CUDA_ALLOC_CONF", "cudaMallocAsync",
       "only statistics"},
      {WithVariable("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"), kLimited,
       false, "PYTORCH_ALLOC_CONF", "cudaMallocAsync", "only statistics"},
      {WithVariable("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), kLimited, false,
       "PYTORCH_NO_CUDA_MEMORY_CACHING", "hides CUDA memory", "unset"},
      {WithVariable("EBBTIDE_BUGDET", "1GiB"), kLimited, false,
       "EBBTIDE_BUGDET", "nothing reads", "set EBBTIDE_BUDGET instead"},
      {WithVariable("ebbtide_budget", "1GiB"), kLimited, false,
       "ebbtide_budget", "nothing reads", "set EBBTIDE_BUDGET instead"},
      {WithVariable("EBBTIDE_NUMBER_OF_THINGS", "1"), kLimited, false,
       "EBBTIDE_NUMBER_OF_THINGS", "nothing reads", "unset it"},
      {with(
           [](auto* v) { v->settings_problem = "EBBTIDE_LOG=x: expected .."; }),
       kMissing, true, "variables", "EBBTIDE_LOG=x", "that form"},
      {WithVariable("EBBTIDE_DISABLE", "1"), kMissing, true, "variables",
       "EBBTIDE_DISABLE", "unset it"},
      {with([](auto* v) {
         v->variables = {{"EBBTIDE_BUDGET", "1GiB"},
                         {"EBBTIDE_RECOMPUTE", "0"},
                         {"EBBTIDE_OFFLOAD_DIR", "none"}};
         v->spill.folder = "none";
       }),
       kLimited, false, "variables", "leave nothing to hold", "unset one"},
      {WithVariable("EBBTIDE_STRICT", "1"), kLimited, false, "variables",
       "EBBTIDE_STRICT is for runs with a budget", "set EBBTIDE_BUDGET"},
      {WithVariable("EBBTIDE_REPORT", "r.json"), kLimited, false, "variables",
       "nothing to report", "EBBTIDE_RECORD"},
      {WithVariable("EBBTIDE_LOADED_PID", "17"), kLimited, false, "variables",
       "EBBTIDE_LOADED_PID", "unset"},
  };
  for (const Case& c : cases) {
    std::vector<Finding> bad = Bad(c.view);
    // A ban on offloading is a line of its own.
    if (bad.size() == 2 && c.view.spill.folder == "none")
      bad.erase(bad.begin());
    ASSERT_EQ(bad.size(), 1) << c.name << ": " << c.what;
    EXPECT_EQ(bad[0].state, c.state) << c.what;
    EXPECT_EQ(bad[0].is_needed, c.is_needed) << c.what;
    EXPECT_EQ(bad[0].name, c.name);
    EXPECT_THAT(bad[0].what, HasSubstr(c.what));
    EXPECT_THAT(bad[0].advice, HasSubstr(c.advice)) << c.what;
    EXPECT_EQ(IsFit(Diagnose(c.view)), !c.is_needed) << c.what;
  }
}

TEST(DoctorTest, WhatIsFineIsSaidToo) {
  SystemView view = Healthy();
  view.variables = {{"LD_PRELOAD", "/x/libebbtide_preload.so:/x/libm.so"},
                    {"PYTORCH_ALLOC_CONF", "expandable_segments:True"},
                    {"EBBTIDE_DISABLE", "0"},
                    {"TORCH_DEVICE_BACKEND_AUTOLOAD", "1"}};
  view.cgroup = Bytes{1 << 30};
  view.memlock = Bytes{8 << 20};
  std::string all;
  for (const Finding& finding : Diagnose(view)) {
    EXPECT_EQ(finding.state, State::kOk) << finding.name;
    all += finding.name + ": " + finding.what + "\n";
  }
  for (const char* line :
       {"python: 3.11.2, /usr/bin/python\n",
        "driver: for CUDA 13.0, /lib/libcuda.so.580.1\n",
        "device cuda:0: Card, 80.00 GiB\n", "cgroup: memory limit 1.00 GiB\n",
        "memlock: 8.00 MiB\n", "LD_PRELOAD: /x/libm.so is loaded, too\n",
        "offloading: /tmp on ext4, 1500 MB/s out and 2000 MB/s back"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
}

std::string DriverLine(const SystemView& view) {
  for (const Finding& finding : Diagnose(view)) {
    if (finding.name != "driver") continue;
    return absl::StrCat(StateName(finding.state), ": ", finding.what);
  }
  return "";
}

TEST(DoctorTest, TheDriverIsTheLoadersWhateverTorchSays) {
  SystemView view = Healthy();
  view.python.driver = 0;
  view.python.devices.clear();
  EXPECT_EQ(DriverLine(view), "ok: for CUDA 13.0, /lib/libcuda.so.580.1");
  view.python = {};
  EXPECT_EQ(DriverLine(view), "ok: for CUDA 13.0, /lib/libcuda.so.580.1");
  view.driver.version = 0;
  EXPECT_EQ(DriverLine(view), "ok: /lib/libcuda.so.580.1");
}

TEST(DoctorTest, ADeviceThatCannotMapMemoryIsNamed) {
  SystemView view = Healthy();
  view.driver.without_pages = 1;
  std::string found;
  for (const Finding& finding : Diagnose(view)) {
    if (finding.name == "device memory") found = finding.what;
  }
  EXPECT_EQ(found, "1 of 1 devices cannot map memory in pages");
}

TEST(DoctorTest, ADriverThatOnlyTorchFindsIsOneToo) {
  SystemView view = Healthy();
  view.driver = {.problem = "libcuda.so.1: cannot open"};
  EXPECT_EQ(DriverLine(view), "ok: for CUDA 13.0, which torch finds");
}

TEST(DoctorTest, WithoutCudaNobodyMissesADriver) {
  SystemView view = Healthy();
  view.driver = {.problem = "libcuda.so.1: cannot open"};
  view.python = {};
  EXPECT_EQ(DriverLine(view), "");
}

TEST(DoctorTest, APythonThatAnswersSomethingElseIsAProblem) {
  for (const char* answer : {"", "hello", "[]", "{}", R"({"version":3})"}) {
    const PythonView python = ParsePython("/p", answer);
    EXPECT_NE(python.problem, "") << answer;
    EXPECT_EQ(python.path, "/p");
  }
  const PythonView python = ParsePython(
      "/p",
      "a banner\n{\"version\":\"3.11.2\",\"entry_points\":[\"a=b:c\"],"
      "\"torch\":\"2.11.0\",\"cuda\":\"\"}\n");
  EXPECT_EQ(python.problem, "");
  EXPECT_EQ(python.torch, "2.11.0");
  EXPECT_EQ(python.entry_points, std::vector<std::string>{"a=b:c"});
}

}  // namespace
}  // namespace ebbtide
