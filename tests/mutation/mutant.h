// SPDX-License-Identifier: Apache-2.0
// One build that holds many mutants: tests/mutation/mutate.py writes calls of these functions in the place of
// operators, and the environment says which one of them goes wrong.
//   MESHWRIGHT_MUTANT=N         mutant N is active; none is where it is unset
//   MESHWRIGHT_MUTANTS_SEEN=F   at the end of each process the numbers of the mutants that were evaluated are added to
//   F, one per line; as negative numbers those of places that were evaluated and whose types do not allow the mutant
// In a constant expression nothing goes wrong.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

// What a mutant does to types and names is no fault of the source that holds it.
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wreturn-type"

namespace mw_mutant {

constexpr int kMost = 1 << 16;

struct State {
  int active = -1;
  const char* seen_file = nullptr;
  signed char seen[kMost] = {};  // 1: evaluated, -1: absent
  State() {
    if (const char* text = std::getenv("MESHWRIGHT_MUTANT")) active = std::atoi(text);
    seen_file = std::getenv("MESHWRIGHT_MUTANTS_SEEN");
  }
  ~State() {
    if (seen_file == nullptr) return;
    if (std::FILE* file = std::fopen(seen_file, "a")) {
      for (int id = 0; id < kMost; ++id)
        if (seen[id] != 0) std::fprintf(file, "%d\n", seen[id] * id);
      std::fclose(file);
    }
  }
};
inline State& state() {
  static State it;
  return it;
}

// Whether mutant `id` is active.
inline bool is_on(int id) {
  State& it = state();
  it.seen[id] = 1;
  return it.active == id;
}
constexpr bool on(int id) { return std::is_constant_evaluated() ? false : is_on(id); }
constexpr void is_absent(int id) {
  if (!std::is_constant_evaluated()) state().seen[id] = -1;
}

// id: the boundary is moved; id + 1: the answer is turned around.
#define MW_MUTANT_COMPARISON(name, op, moved)                   \
  template <class A, class B>                                   \
  constexpr bool name(int id, const A& a, const B& b) {         \
    if constexpr (requires { static_cast<bool>(a moved b); }) { \
      if (on(id)) return static_cast<bool>(a moved b);          \
    } else {                                                    \
      is_absent(id);                                            \
    }                                                           \
    if (on(id + 1)) return !static_cast<bool>(a op b);          \
    return static_cast<bool>(a op b);                           \
  }
MW_MUTANT_COMPARISON(less, <, <=)
MW_MUTANT_COMPARISON(less_equal, <=, <)
MW_MUTANT_COMPARISON(greater, >, >=)
MW_MUTANT_COMPARISON(greater_equal, >=, >)
#undef MW_MUTANT_COMPARISON

// id: the answer is turned around.
template <class A, class B>
constexpr bool equal(int id, const A& a, const B& b) {
  return on(id) ? !static_cast<bool>(a == b) : static_cast<bool>(a == b);
}
template <class A, class B>
constexpr bool unequal(int id, const A& a, const B& b) {
  return on(id) ? static_cast<bool>(a == b) : static_cast<bool>(a != b);
}
template <class A>
constexpr bool negated(int id, const A& a) {
  return on(id) ? !static_cast<bool>(a) : static_cast<bool>(a);
}

// id: the other operation; id + 1: the right side is dropped. Each where the types allow it.
#define MW_MUTANT_ARITHMETIC(name, op, other)                     \
  template <class A, class B>                                     \
  constexpr auto name(int id, const A& a, const B& b) {           \
    using Result = std::decay_t<decltype(a op b)>;                \
    if constexpr (requires { static_cast<Result>(a other b); }) { \
      if (on(id)) return static_cast<Result>(a other b);          \
    } else {                                                      \
      is_absent(id);                                              \
    }                                                             \
    if constexpr (std::is_convertible_v<A, Result>) {             \
      if (on(id + 1)) return static_cast<Result>(a);              \
    } else {                                                      \
      is_absent(id + 1);                                          \
    }                                                             \
    return static_cast<Result>(a op b);                           \
  }
MW_MUTANT_ARITHMETIC(plus, +, -)
MW_MUTANT_ARITHMETIC(minus, -, +)
MW_MUTANT_ARITHMETIC(times, *, +)
#undef MW_MUTANT_ARITHMETIC

// id: times instead; id + 1: not divided.
template <class A, class B>
constexpr auto over(int id, const A& a, const B& b) {
  using Result = std::decay_t<decltype(a / b)>;
  if constexpr (requires { static_cast<Result>(a * b); }) {
    if (on(id)) return static_cast<Result>(a * b);
  } else {
    is_absent(id);
  }
  if constexpr (std::is_convertible_v<A, Result>) {
    if (on(id + 1)) return static_cast<Result>(a);
  } else {
    is_absent(id + 1);
  }
  return static_cast<Result>(a / b);
}

// id: the other of the two.
template <class T>
constexpr T min(int id, const T& a, const T& b) {
  return (b < a) != on(id) ? b : a;
}
template <class T>
constexpr T max(int id, const T& a, const T& b) {
  return (a < b) != on(id) ? b : a;
}

}  // namespace mw_mutant
