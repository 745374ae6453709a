#!/usr/bin/env bash
# What `./dev check` runs. clang-tidy and the header check remember what was
# clean (by hash of the file, of all headers and of the settings), since a file
# that includes torch takes half a minute.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

FOLDERS=(planner profiler allocator hooks cli python bench tests)
CLEAN=build/tidy/.clean
failed=0

part() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

# attempt NAME COMMAND...: runs it, remembers a failure, goes on.
attempt() {
  part "$1"
  "${@:2}" || { failed=1; printf 'check: %s failed\n' "$1" >&2; }
}

sources() { find "${FOLDERS[@]}" -type f "$@" | sort; }

format() {
  sources \( -name '*.cc' -o -name '*.h' -o -name '*.c' \) |
    xargs -d '\n' clang-format --dry-run -Werror
}

# A compile database without precompiled headers, which clang cannot read.
database() {
  cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >build/tidy.log 2>&1 ||
    { cat build/tidy.log >&2; return 1; }
}

# once KIND FILE COMMAND...: skips FILE if it was clean with the same inputs.
once() {
  local key
  key=$CLEAN/$1-$(cat "$2" build/tidy/.inputs | sha256sum | cut -d' ' -f1)
  [[ -f $key ]] && return 0
  "${@:3}" && touch "$key"
}

tidy() { once tidy "$1" clang-tidy -p build/tidy --quiet "$1"; }

# planner, profiler, allocator and cli have no torch on their include path:
# a header there that wants it does not compile. CUDA's headers may be missing,
# and then so is what includes them.
header() {
  local flags=(-std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -isystem build/abseil
    '-DEBBTIDE_TEST_DATA=""')
  local torch=.venv/lib/python3*/site-packages/torch/include
  local cuda=.venv/lib/python3*/site-packages/nvidia/cu13/include
  case $1 in
    tests/cudasim/*)
      # shellcheck disable=SC2206  # the patterns are meant to expand
      local roots=($torch $cuda)
      flags+=(-DNDEBUG -isystem "${roots[0]}" -isystem "${roots[1]}") ;;
    hooks/* | */torch_*)
      # shellcheck disable=SC2206  # the patterns are meant to expand
      local roots=($torch $cuda)
      flags+=(-DNDEBUG -isystem "${roots[0]}" -isystem "${roots[1]}"
        -isystem "${roots[0]}/torch/csrc/api/include") ;;
    */cuda_* | */pinned_* | */fake_cuda.h)
      local cuda
      cuda=$(sed -n 's/^CudaHeaders_INCLUDE_DIR:PATH=//p' \
        build/tidy/CMakeCache.txt)
      [[ -d $cuda ]] || return 0
      flags+=(-isystem "$cuda") ;;
  esac
  once header "$1" g++ "${flags[@]}" -x c++ "$1"
}

each() {
  local function=$1
  # `bash -c` sees exported functions only.
  export -f once tidy header
  export CLEAN
  xargs -P "$(nproc)" -I{} bash -c "$function {}"
}

all_tidy() {
  sources \( -name '*.cc' -o -name '*.c' \) | each tidy
}

all_headers() {
  sources -name '*.h' -not -name '*_pch.h' | each header
}

mkdir -p "$CLEAN"
sources -name '*.h' | xargs -d '\n' cat .clang-tidy CMakeLists.txt \
  >build/tidy/.inputs

attempt "clang-format" format
attempt "ruff check" .venv/bin/ruff check python bench tests
attempt "ruff format" .venv/bin/ruff format --check python bench tests
attempt "mypy" .venv/bin/mypy
attempt "words" .venv/bin/python tests/words.py
attempt "compile database" database
attempt "headers compile alone" all_headers
attempt "clang-tidy" all_tidy
((failed)) || part "check: clean"
exit "$failed"
