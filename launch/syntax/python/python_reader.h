// SPDX-License-Identifier: Apache-2.0
// Follows the statements of Python functions with what is known of their values. Nothing is executed: no library is
// called, no file written, and what a name of either stands for is not known.
//
// A branch whose condition is not known is followed, too, but what it sets of anything older than itself becomes an
// expression (PythonHeap::scope numbers such branches).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "launch/syntax/python/python_module.h"

namespace meshwright {

inline constexpr int kMaxPythonNesting = 200;  // of statements, calls and expressions

// The names of a call of a function.
struct PythonFrame {
  PythonModule* module = nullptr;
  std::map<std::string, PythonRef> names = {};
  std::shared_ptr<PythonFrame> outer = nullptr;  // of the function within which this one is defined
  std::size_t scope = 0;                         // within which branches it was called
  std::vector<PythonRef> returned = {};          // what it may return, where conditions are not known
  std::string may_have_returned = {};            // where: under which condition it goes on
  bool is_module = false;
};

// What a statement raises, up to the statement that expects it.
struct PythonRaise : InputError {
  PythonRaise(const std::string& sentence, std::string of) : InputError(sentence), name(std::move(of)) {}
  std::string name;  // "ValueError"
};

struct PythonArgument {
  std::string name;  // "": by its position
  PythonRef value;
};

class PythonReader {
 public:
  enum class Flow { Next, Return, Break, Continue };
  using Lines = std::vector<PythonLine>;

  PythonReader(PythonConfig& config, PythonModules& modules, PythonHeap& heap, const PythonSurroundings& around)
      : config_(config), modules_(modules), heap_(heap), around_(around) {}

  // A name of a module, of those that it imports included; nullptr: it has none.
  PythonObject* lookup(PythonModule& module, const std::string& name);
  // What a function returns without arguments; its result is nullptr where it is not followed.
  PythonObject* call(PythonObject& function, const std::vector<PythonArgument>& arguments, bool all_given);
  // All statements of a module as if they were those of a function, and the name `root` after them.
  PythonObject* run_as_function(PythonModule& module, const std::string& root);
  [[nodiscard]] int line() const { return line_; }

 private:
  struct Scope {
    std::size_t id;
    std::string condition;
  };

  // --- python_statements.cpp ---
  void run_module(PythonModule& module);
  Flow block(PythonFrame& frame, std::size_t begin, std::size_t end);
  // The statement `at` with its block, and what belongs to it; `at` stands behind it afterwards.
  Flow statement(PythonFrame& frame, std::size_t& at, std::size_t end);
  Flow simple(PythonFrame& frame, std::size_t at);
  Flow conditions(PythonFrame& frame, std::size_t& at, std::size_t end);
  Flow loop(PythonFrame& frame, std::size_t& at, std::size_t end);
  Flow attempt(PythonFrame& frame, std::size_t& at, std::size_t end);
  Flow unknown_branch(PythonFrame& frame, const std::string& condition, std::size_t begin, std::size_t end);
  void import(PythonFrame& frame, const PythonLine& line);
  void define(PythonFrame& frame, std::size_t at);
  void assign(PythonFrame& frame, const PythonExpression& target, PythonRef value, const PythonLine& line);
  void assign_name(PythonFrame& frame, const std::string& name, PythonRef value);
  void assign_item(PythonFrame& frame, const PythonExpression& target, PythonRef value, const PythonLine& line);
  void remove(PythonFrame& frame, const PythonExpression& target);
  Flow give_back(PythonFrame& frame, PythonRef value);
  Flow raise(const PythonFrame& frame, const PythonLine& line);  // throws PythonRaise
  [[nodiscard]] static bool only_raises(const PythonModule& module, std::size_t begin, std::size_t end);
  void set_member(PythonObject& of, const std::string& name, PythonRef value);
  // `value` in the place of `before` (nullptr: none), which is of the scope `scope`.
  PythonRef written(PythonObject* before, PythonRef value, std::size_t scope);
  void ignore(const PythonFrame& frame, const PythonLine& line);
  void open_scope(std::string condition);
  void close_scope();

  // --- python_expressions.cpp ---
  PythonRef value_of(PythonFrame& frame, const PythonExpression& tree);
  PythonRef unknown(const PythonFrame& frame, const PythonExpression& tree);
  PythonRef name_of(PythonFrame& frame, const PythonExpression& tree);
  PythonRef attribute(PythonFrame& frame, const PythonExpression& tree);
  // A member of a value; nullptr: not known whether it has it.
  PythonObject* member_of(PythonFrame& frame, PythonObject& of, const std::string& name, const std::string& shown);
  PythonRef subscript(PythonFrame& frame, const PythonExpression& tree);
  PythonRef operation(PythonFrame& frame, const PythonExpression& tree);
  PythonRef comparison(PythonFrame& frame, const PythonExpression& tree);
  PythonRef dictionary(PythonFrame& frame, const PythonExpression& tree);
  PythonRef filled_text(PythonFrame& frame, const PythonExpression& tree);
  PythonRef comprehension(PythonFrame& frame, const PythonExpression& tree);
  bool comprehend(PythonFrame& frame, const PythonExpression& tree, std::size_t clause, PythonObject& into);
  PythonRef resolved(PythonObject& import);
  PythonObject* known_member(const PythonObject& of, const std::string& name);
  PythonRef from_config(const ConfigValue& value);
  // What stands in the body of a class for its member; `is_open`: it may have another.
  PythonObject* default_of(PythonObject& type, const std::string& name, bool& is_open, int depth);
  // The values that a loop goes through; nullopt: not known.
  std::optional<std::vector<PythonRef>> items_of(const PythonObject& value);
  std::string source_of(const PythonExpression& tree) const;

  // --- python_calls.cpp ---
  PythonRef call_of(PythonFrame& frame, const PythonExpression& tree);
  std::vector<PythonArgument> arguments_of(PythonFrame& frame, const PythonExpression& tree, bool& all_given);
  // What a call of a class, or of what is not known, makes.
  PythonRef made_by(const std::string& name, PythonObject* of, const PythonObject* type,
                    const std::vector<PythonArgument>& arguments);
  void bind(PythonFrame& frame, const PythonLine& definition, const std::vector<PythonArgument>& arguments,
            bool all_given);
  PythonRef result_of(PythonFrame& frame, Flow flow);
  // --- python_builtins.cpp; nullptr: none of that name, or its result is not known ---
  PythonObject* builtin(PythonFrame& frame, const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* converted(const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* on_sequences(const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* on_members(PythonFrame& frame, const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* method(PythonObject& of, const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* text_method(PythonObject& of, const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* list_method(PythonObject& of, const std::string& name, const std::vector<PythonArgument>& arguments);
  PythonObject* dict_method(PythonObject& of, const std::string& name, const std::vector<PythonArgument>& arguments);
  // Whether it is of one of the types; nullopt: not known.
  std::optional<bool> is_instance(const PythonObject& value, PythonObject& type);
  PythonRef copy_of(PythonObject& value, bool deep, std::map<const PythonObject*, PythonRef>& made);
  void set_key(PythonObject& dict, PythonRef key, PythonRef value);
  PythonEntry* find_key(PythonObject& dict, const PythonObject& key);
  // What a branch of an unknown condition changes in its place is no longer known.
  bool may_change(PythonObject& of);

  PythonConfig& config_;
  PythonModules& modules_;
  PythonHeap& heap_;
  const PythonSurroundings& around_;
  std::vector<Scope> scopes_;
  std::size_t scopes_made_ = 0;
  std::size_t changes_ = 0;  // what branches of unknown conditions have changed
  int depth_ = 0;            // of calls, blocks and expressions within one another
  std::vector<std::pair<const PythonModule*, std::size_t>> active_;  // functions that are being followed
  std::set<std::string> listed_;                                     // in config_.ignored
  std::map<std::string, std::set<std::string>> missing_;
  // The statement that is followed.
  const std::string* text_ = nullptr;
  const std::string* place_ = nullptr;
  int line_ = 1;
  bool is_followed_ = false;  // the last call

  friend PythonConfig config_from_python(const std::string&, const std::string&, const std::string&,
                                         const PythonSurroundings&);
};

}  // namespace meshwright
