// SPDX-License-Identifier: Apache-2.0
// What expressions of a Python configuration stand for while it is read, as far as that is known.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

struct PythonObject;
struct PythonModule;
struct PythonFrame;
// Never null unless it is said; lives as long as the PythonHeap that made it.
using PythonRef = PythonObject*;

// A member of an object or of what is not known, by its name; of a dictionary, by its key.
struct PythonEntry {
  std::string name = {};
  PythonRef key = nullptr;
  PythonRef value = nullptr;
  int line = 0;                        // of the statement that set it
  const std::string* place = nullptr;  // of its file
};

struct PythonObject {
  enum class Kind {
    Unknown,  // text: the expression, as far as it is known; may be given members, and has others
    None,
    Bool,
    Whole,
    Real,
    Text,
    List,  // sets, too
    Tuple,
    Dict,
    Object,  // made by a call of `text`, which is a class or not known: its named arguments, others as "#0", "#1"
    Function,
    Class,
    Module,
    Import,  // a name that another file has, until it is asked for
    Method   // `text` of `of`
  } kind = Kind::Unknown;
  std::string text = {};   // Whole, Real: as they are written
  std::int64_t whole = 0;  // Bool, Whole
  double real = 0.0;
  std::vector<PythonRef> items = {};
  std::vector<PythonEntry> entries = {};
  PythonRef of = nullptr;       // may be null
  std::size_t scope = 0;        // within which branches of unknown conditions it was made
  bool is_class = false;        // Object: `text` is a class by its name, so that it is neither None nor false
  bool is_given = false;        // Object: the call has arguments
  bool is_open = false;         // Dict: has members that are not known
  std::string begun_with = {};  // the function that returned it last
  bool is_part = false;         // Unknown: the member of `of` that it is, while nothing is known of it
  bool is_lost = false;         // Unknown: a name that nothing says what it is
  // Function, Class, Import, Module.
  PythonModule* module = nullptr;  // may be null
  std::size_t statement = 0;       // of the definition
  std::shared_ptr<PythonFrame> closure = nullptr;
  std::vector<std::string> names = {};  // Import: {module, name or ""}
  int dots = 0;
  bool is_looked_up = false;  // Import: it is being asked for

  [[nodiscard]] PythonEntry* find(const std::string& name);
};

// Makes objects, up to a number that no configuration needs.
class PythonHeap {
 public:
  explicit PythonHeap(const std::string& place) : place_(place) {}

  PythonRef make(PythonObject::Kind kind, std::string text = {});
  PythonRef none() { return make(PythonObject::Kind::None, "None"); }
  PythonRef truth(bool value);
  PythonRef whole(std::int64_t value);
  PythonRef real(double value);
  PythonRef text(std::string value) { return make(PythonObject::Kind::Text, std::move(value)); }
  PythonRef unknown(std::string expression);

  // Counts work; throws InputError "PLACE:LINE: ..." beyond what any configuration needs.
  void count(std::size_t steps);
  void stand_at(const std::string& place, int line) {
    at_ = &place;
    line_ = line;
  }
  std::size_t scope = 0;  // of what is made

 private:
  const std::string& place_;
  const std::string* at_ = nullptr;
  int line_ = 1;
  std::deque<PythonObject> objects_;
  std::size_t steps_ = 0;
};

// --- what Python says of values; nullopt: it is not known ---
[[nodiscard]] bool is_known(const PythonObject& value);
[[nodiscard]] inline bool is_sequence(const PythonObject& value) {
  return value.kind == PythonObject::Kind::List || value.kind == PythonObject::Kind::Tuple;
}
[[nodiscard]] std::optional<bool> truth_of(const PythonObject& value);
[[nodiscard]] std::optional<bool> are_equal(const PythonObject& a, const PythonObject& b);
[[nodiscard]] std::optional<bool> is_none(const PythonObject& value);
[[nodiscard]] std::optional<bool> is_in(const PythonObject& one, const PythonObject& all);
// "<", "<=", ">", ">=" of numbers and of texts.
[[nodiscard]] std::optional<bool> compares(const PythonObject& a, const PythonObject& b, const std::string& sign);
// Python's operators; nullptr: not known.
[[nodiscard]] PythonObject* combined(PythonHeap& heap, PythonObject& a, PythonObject& b, const std::string& sign);
// As an expression writes it, cut where it is long: 'a text', [1, 2], C(...).
[[nodiscard]] std::string shown_python(const PythonObject& value);
// As str() gives it; nullopt: not known.
[[nodiscard]] std::optional<std::string> str_of(const PythonObject& value);

// As a configuration says it: calls are maps with what is called as their text, which has "(of)" where it is asked of
// the result of another call. Places that are not `place` are in the values. Throws InputError where it holds more than
// kMaxLaunchValues.
[[nodiscard]] ConfigValue config_value_of(const PythonObject& value, int line, const std::string& place);

}  // namespace meshwright
