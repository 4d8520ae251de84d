// SPDX-License-Identifier: Apache-2.0
// The settings of a launch file, each with its place: what a reader has taken counts as understood, and what is left at
// the end is listed for the user.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

struct Setting {
  std::string key;    // "tensor-model-parallel-size", "parallelism.tensor_parallel_degree"
  std::string shown;  // as the framework writes it: "--tensor-model-parallel-size"
  ConfigValue value;  // Null: a flag without a value
  std::string place;  // "run.sh:12"
  enum class State { Unread, Understood, NoEffect } state = State::Unread;
};

class Settings {
 public:
  void add(std::string key, std::string shown, ConfigValue value, std::string place);
  // Every leaf of a map, as "a.b.c". Lists are values.
  void add_all(const ConfigValue& map, const std::string& prefix, const std::string& file);

  // Other names of the same settings: {as given, as they are asked for}.
  void rename(const std::map<std::string, std::string>& names);
  // The same by a rule; "": the setting keeps its name.
  void rename(const std::function<std::string(const Setting& setting)>& name_of);

  [[nodiscard]] bool has(const std::string& key) const;
  // The last of this name, as argument parsers take it; nullptr: none. All of this name are understood from now on.
  const Setting* take(const std::string& key);
  // The value as what is asked for; nullopt: not given. Throws InputError "PLACE: NAME ..." for another, and where a
  // variable in it is not resolved.
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low = 1);
  std::optional<double> number(const std::string& key);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::string> text(const std::string& key);
  // "" where it is not given, or has no single value. Throws InputError where a variable in it is not resolved.
  std::string text_or_nothing(const std::string& key);
  // The same of names and paths that change no plan by themselves: where the value is not resolved, its last part
  // ("${HOME}/models/Qwen2-7B"), or "".
  std::string name_or_nothing(const std::string& key);
  std::vector<std::string> words(const std::string& key);
  // A flag that stands there without a value, or with one that is true.
  bool flag(const std::string& key);

  // Settings that change nothing of the plan.
  void no_effect(const std::function<bool(const std::string& key)>& is_one);
  void no_effect_where(const std::function<bool(const Setting& setting)>& is_one);
  // Words beside the flags change nothing, but for what commands print, which may be flags.
  void no_effect_of_words();
  // "name (run.sh:3 and run.sh:9)" of every setting that is given twice, with different values.
  [[nodiscard]] std::vector<std::string> given_twice() const;

  [[nodiscard]] const std::vector<Setting>& all() const { return all_; }
  [[nodiscard]] int count(Setting::State state) const;
  // Where the setting stands and what it is called: "run.sh:12: --num-layers".
  [[nodiscard]] std::string where(const std::string& key) const;

 private:
  std::vector<Setting> all_;
};

// Whether `text` is one variable that nothing sets, and nothing else.
[[nodiscard]] bool is_unknown_variable(const std::string& text);

// Whether `text` is nothing but what a command prints, which is not known without running it.
[[nodiscard]] bool is_printed(const std::string& text);

// The first name in `text` that is not resolved: "N", "output_of_cat"; "": all are.
[[nodiscard]] std::string unknown_name(const std::string& text);

// Throws InputError "PLACE: NAME: ..." where a variable in `text` is not resolved.
void expect_resolved(const std::string& text, const std::string& where);

}  // namespace meshwright
