// SPDX-License-Identifier: Apache-2.0
// From the files of a launch to the settings of one framework: each language and each framework's files in a source of
// its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/read/launch_text.h"
#include "launch/read/script_text.h"
#include "launch/syntax/python/python_config.h"
#include "launch/syntax/shell.h"

namespace meshwright {

[[nodiscard]] std::string file_name(const std::string& path);  // without its folder
// A training script as export writes it for FSDP2 and accelerate.
[[nodiscard]] bool is_torch_program(const std::string& text);
// A program for JAX or Alpa, or with `target` one of these.
[[nodiscard]] bool is_mesh_program(const std::string& text, const std::string& target);
// picotron's settings, which its program is given as JSON.
[[nodiscard]] bool is_picotron(const ConfigValue& root);
// A file of recipes of Megatron-Bridge or NeMo 2.
[[nodiscard]] bool is_python_recipe(const std::string& text);
[[nodiscard]] bool ends_with_any(std::string_view name, const std::vector<const char*>& endings);

class TextReader {
 public:
  explicit TextReader(const LaunchInput& input);
  LaunchText read() &&;
  std::vector<std::string> launches() &&;  // launches_of()

 private:
  // --- launch_text.cpp: which language, which framework ---
  // The framework of the file unless the caller names one.
  void set_target(const char* target);
  [[nodiscard]] std::string place_of(const GivenFile& file) const;
  std::optional<std::string> file_named(const std::string& name) const;
  void read_yaml(const GivenFile& file);
  void by_target(const ConfigValue& root, const std::string& place);
  void read_toml(const GivenFile& file);
  void read_python(const GivenFile& file, const std::string& function);
  // As many devices as the degrees of torchtitan multiply to, where none is left open.
  void count_torchtitan();
  // --- python_recipe.cpp ---
  void python_recipe(const GivenFile& file, const std::string& function);
  // --- bridge_call.cpp: commands of Megatron-Bridge ---
  void bridge_call(int line);
  void performance_call();
  // The further file, or one of the modules of the script's repository, that has the function.
  [[nodiscard]] std::optional<GivenFile> recipe_file(const std::string& function,
                                                     const std::vector<std::string>& modules) const;
  // Puts the recipe's settings before the command's; false: it is not there.
  bool with_recipe(const std::string& function, const std::vector<std::string>& modules, int line);
  // --- python_modules.cpp: what a Python file imports, from further files or its package's tree ---
  [[nodiscard]] std::optional<PythonFile> python_module(const std::string& importer, int dots,
                                                        const std::string& module) const;
  [[nodiscard]] PythonSurroundings python_surroundings(const std::string& path, PythonKnown known) const;
  [[nodiscard]] PythonConfig python_config(const GivenFile& file, const std::string& function, PythonKnown known) const;
  // Statements that are not understood, and modules that are not there.
  void note_python(const PythonConfig& config, const std::string& place);
  // nanoGPT's assignments; false: the file is none of its configurations.
  bool nanogpt(const GivenFile& file);
  // A command that gives a program one of nanoGPT's configurations ("train.py config/train_gpt2.py --batch_size=5");
  // false: none does.
  bool nanogpt_call();
  // --- trainers/llm_c.cpp ---
  bool llm_c();  // false: no command of the script starts it
  // --- torch_program.cpp ---
  void torch_program(const GivenFile& file);
  void add_torch_constants(const GivenFile& file);
  // A command of the script starts one that is beside it; false: none does.
  bool started_torch_program();
  // --- mesh_program.cpp ---
  void mesh_program(const GivenFile& file);
  // The text of torchtitan's schedule, where a file names one that is there.
  void load_schedule();

  // --- framework_yaml.cpp: YAML and JSON ---
  void megatron_test(const ConfigValue& root, const std::string& place);
  // "--flag: value" or "flag_name: value"; `true` is a flag without a value, `false` and null are not given.
  void add_flag_map(const ConfigValue& map, const std::string& place);
  // "${NAME}" of a file: from the caller, or unresolved.
  std::string with_variables(const std::string& text, int line);
  void megatron_map(const ConfigValue& root, const std::string& place);
  // The file of --yaml-cfg: arguments in groups, those of the model and of its degrees by the names of Megatron-core.
  void megatron_yaml(const ConfigValue& root, const std::string& place);
  // Recipes of NeMo 2 and Megatron-Bridge: groups of keys, of which Megatron-LM knows most by the same names.
  void bridge(const ConfigValue& root, const std::string& place);
  void accelerate(const ConfigValue& root, const std::string& place);
  void count_processes(const ConfigValue& root);
  void nanotron(const ConfigValue& root, const std::string& place);
  // The file of a trainer over FSDP or FSDP2, which stands alone.
  void fsdp_trainer(const ConfigValue& root, const std::string& place, const char* variant);
  void lingua(const ConfigValue& root, const std::string& place);
  // --- wrapped_yaml.cpp: a script within YAML of a program that rents machines ---
  [[nodiscard]] static bool is_wrapped(const ConfigValue& root);
  // The script, and what the file says of hosts, devices and variables. REQUIRES: is_wrapped.
  GivenFile unwrapped(const ConfigValue& root, const std::string& place);
  void picotron(const ConfigValue& root, const std::string& place);  // its degrees are those of all devices
  void litgpt(const ConfigValue& root, const std::string& place);
  // NeMo Automodel's, which may say how many devices it is for.
  void automodel(const ConfigValue& root, const std::string& place);
  void deepspeed(const ConfigValue& root, const std::string& place);
  void neox(const ConfigValue& root, const std::string& place);
  // Its keys may have dashes or underscores.
  void add_neox(const ConfigValue& root, const std::string& place);

  // The arguments of nnScaler's trainer, and the constraints of partition that they name.
  void nnscaler(const ConfigValue& root, const std::string& place);

  // --- trainers/trainer_text.cpp: programs that fine-tune over Hugging Face's trainer ---
  // LLaMA-Factory's or axolotl's file, with the DeepSpeed file that it names and accelerate's file beside it.
  void trainer(const ConfigValue& root, const std::string& place, const char* variant);
  void add_trainer(const ConfigValue& root, const std::string& place);
  void add_deepspeed_file(const ConfigValue& named, const std::string& place);
  void add_accelerate_files(const std::string& but);
  // The file that the command names, and its flags behind it.
  void trainer_call(const ProgramCall& found, const std::string& place);
  void set_trainer_target();
  // The YAML file that a word or flag of the command names; throws InputError where it is not there.
  [[nodiscard]] ConfigValue settings_file(const Setting& naming) const;
  // TRL's arguments, of its command or of a file of theirs, over what accelerate is told.
  void trl_call(const Settings& given, int line, const std::string& place);
  void trl_file(const ConfigValue& root, const std::string& place);
  void add_default(const std::string& name, const char* value, const char* whose);
  void add_defaults_of_trl();
  // --- trainers/policy_text.cpp: verl, NeMo RL and prime-rl ---
  void prime_rl(const ConfigValue& root, const std::string& place);
  void count_prime_rl();
  void verl_actor(const ConfigValue& root, const std::string& place);
  void settle_verl();  // hosts and what trains, by its words
  void nemo_rl(ConfigValue root, const std::string& place);
  void settle_nemo_rl();
  // The processes that ms-swift starts, which are told by variables.
  void count_swift();

  // --- flagscale_yaml.cpp ---
  // An experiment file, the training file that it names, or both.
  void flagscale(const ConfigValue& root, const std::string& place);
  // The ranks of the meshes are the devices.
  void count_meshes();
  static std::string train_of(const ConfigValue& root);
  void flagscale_runner(const ConfigValue& experiment);

  // --- nemo_yaml.cpp ---
  void nemo(const ConfigValue& root, const std::string& place);
  void expect_nemo_gpt(const ConfigValue& model, const std::string& place) const;

  // --- nemo_call.cpp ---
  void nemo_call(const ProgramCall& found, const std::string& place);
  // The file that the command's words change, or NeMo's own for GPT.
  ConfigValue nemo_base(const ProgramCall& found, const std::string& place);

  // --- primus_yaml.cpp ---
  // An experiment of AMD's Primus: flags of Megatron-LM or torchtitan's settings over a model's file.
  void primus(const ConfigValue& root, const std::string& place);
  void primus_megatron(ConfigValue flags, const std::string& place);
  // The map of a model's file over those that it extends; nullopt: one of them is not there.
  std::optional<ConfigValue> primus_model(const std::string& folder, const std::string& name, int depth);
  // "${NAME:otherwise}" in all scalars: the caller's variable, or what stands behind the colon.
  void fill_variables(ConfigValue& value) const;

  // --- maxtext_yaml.cpp ---
  // A run configuration inherits from others; the shapes are in those of models.
  void maxtext_file(const ConfigValue& root, const std::string& place);
  // What is set already stays: a file overrides what it inherits from.
  void add_missing(const ConfigValue& map, const std::string& place);
  void add_maxtext(const ConfigValue& root, const std::string& place, int depth);
  void inherit(const ConfigValue& root, const std::string& place, int depth);
  // Hosts and their devices from the axes between and within them, where none of these is left open.
  void count_maxtext();

  // --- command_text.cpp: scripts, and the files that their commands name ---
  void read_script(const GivenFile& file);
  // The caller's, over those that the script exports, over those of scripts beside it that it does not start.
  [[nodiscard]] std::map<std::string, std::string> variables() const;
  // What the further scripts export that `but` does not name (settings that a site sources first).
  [[nodiscard]] std::map<std::string, std::string> exported_beside(const GivenFile& but) const;
  // Where a script launches nothing: reads the YAML file that is given beside it, with the variables that the script
  // exports; false: there is no such file.
  bool configuration_of_variables();
  [[noreturn]] void refuse_script(const std::string& place) const;
  // --- launches.cpp: which commands launch trainings ---
  struct Launch {
    std::size_t command = 0;  // of the script's
    ProgramCall call;
    std::string target = {};   // "": of a program that is not known, which names a file of settings
    std::string why_not = {};  // "": it is read
  };
  void read_shell_of(const GivenFile& file);
  [[nodiscard]] std::vector<Launch> found_launches() const;
  // Whether the command names a file of settings for a program that is not known, or starts a script beside it.
  [[nodiscard]] bool launches_by_file(std::size_t command) const;
  bool read_by_file(const std::string& place);  // false: no command does
  // The file of settings of a framework that a command names, where the program itself is not known; false: none.
  bool named_configuration(const std::string& place);
  [[nodiscard]] std::vector<std::string> texts_of(const std::vector<Launch>& launches) const;
  // The one that the caller chooses, or the only one; nullopt: none is known. Throws InputError where one has to be
  // chosen.
  std::optional<Launch> chosen_launch();
  // Commands among which readers of single programs look for theirs: all, or the chosen one.
  [[nodiscard]] std::vector<ShellCommand> looked_at() const;
  void call(const ProgramCall& found, const std::string& place);
  void swift_call(const ProgramCall& found, const std::string& place);
  // Words that no flag takes are the program's own arguments.
  void drop_words();
  void load_yaml_arguments();  // of --yaml-cfg, in the place of the command's
  std::optional<std::string> written_or_named(const std::string& name) const;
  void load_json(const std::string& key, const std::string&);
  // As it is written, with what is unresolved.
  std::string raw_text(const std::string& key);
  void torchtitan_call(const std::string& place);
  static std::string flag_text(const Settings& settings, const std::string& key);
  void maxtext_call(const std::string& place);
  // The file that the launcher names holds the settings, and its own flags come behind it.
  void accelerate_call(const ProgramCall& found, const std::string& place);
  void add_program(const Settings& own);
  void add_fsdp_of_program();
  void add_deepspeed_of_program();
  void deepspeed_call(const std::string& place);

  const LaunchInput& input_;
  LaunchText text_;
  ShellResult script_;
  std::map<std::string, std::string> beside_;  // exported_beside of the first file
  std::string program_file_;                   // the script whose command is the launch
  std::optional<std::size_t> only_ = {};       // the command that is chosen
  std::map<std::string, std::string> given_;   // variables of the file that a script stands in
};

}  // namespace meshwright
