// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/manual/value_kinds.h"
#include "cli/terminal/help_layout.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/verbs.h"
#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr int kInputIsWrong = 2, kOurFault = 3, kSystem = 4, kNoPlan = 5, kInterrupted = 6;

// The sentence with no word longer than a name is.
std::string with_short_words(const std::string& sentence) {
  constexpr std::size_t kMaxWord = 300;
  std::vector<std::string> words = split(sentence, ' ');
  for (std::string& word : words) word = shortened(word, kMaxWord);
  return join(words, " ");
}

// What the input holds is quoted in sentences: it may neither end one nor steer a terminal, nor bury it.
std::string said(const std::string& sentence) {
  constexpr std::size_t kMaxSentence = 4000;
  return shortened(with_short_words(printable(sentence)), kMaxSentence);
}

void add_verbs(CLI::App& app, Context& context) {
  add_models(app, context);
  add_clusters(app, context);
  add_plan(app, context);
  add_simulate(app, context);
  add_sweep(app, context);
  add_profile(app, context);
  add_import(app, context);
  add_calibrate(app, context);
  add_validate(app, context);
  add_replay(app, context);
  add_run(app, context);
  add_diff(app, context);
  add_explain(app, context);
  add_export(app, context);
  add_read(app, context);
  add_advise(app, context);
  add_solve(app, context);
  add_manual(app, context);
  name_values(app);
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_name() == name) return verb;
  return nullptr;
}

// CLI11 reports an unknown verb or option as "not expected"; these name the nearest known ones.
void refuse_unknown_names(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return;
  const CLI::App* verb = find_verb(app, words[0]);
  std::vector<std::string> verbs;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(known->get_name());
  if (verb == nullptr)
    throw InputError(unknown_name("verb", words[0], verbs, "`meshwright --help` lists all of them."));

  std::vector<std::string> options = {"--quiet"};
  for (const CLI::Option* option : verb->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& argument = words[i];
    if (argument == "--") return;
    const std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && std::find(options.begin(), options.end(), name) == options.end())
      throw InputError(unknown_name("option", name, options,
                                    fmt::format("`meshwright {} --help` lists all of them.", verb->get_name())));
  }
}

// True: help or the version was asked for and printed.
bool parse(CLI::App& app, const std::vector<std::string>& words) {
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
    return false;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) {
      print(out.str().ends_with('\n') ? out.str() : out.str() + "\n");
      return true;
    }
    const bool known = !words.empty() && find_verb(app, words[0]) != nullptr;
    throw InputError(fmt::format("{}; see `meshwright{} --help`.", error.what(), known ? " " + words[0] : ""));
  }
}

// An empty text is what an unset shell variable leaves behind; taking it for "not given" would drop it silently. A
// value with a line break would write lines of its own into what is printed; names of files may hold any other byte.
void refuse_odd_values(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& value : option->results()) {
      require(!value.empty(), "{}: the value is empty; give a value, or leave the option out.", option->get_name());
      require(printable(value) == escaped_bytes(value),
              "{}: the value '{}' holds a control character; give one without.", option->get_name(),
              shortened(printable(value)));
    }
}

}  // namespace

CommandLine::CommandLine(Context& context, const std::vector<std::string>& words)
    : context_(context),
      app_(std::make_unique<CLI::App>(
          "Finds the fastest way to train a neural network on a cluster of accelerators, and proves it by running it.",
          "meshwright")) {
  app_->formatter(std::make_shared<HelpLayout>());
  app_->set_version_flag("--version", "meshwright " MESHWRIGHT_VERSION);
  app_->require_subcommand(0, 1);
  app_->footer(
      "Exit codes: 0 success, 2 wrong input, 3 a bug in meshwright, 4 a system error (file, memory, output), 5 no "
      "feasible plan, 6 an interrupted sweep, profile or run.\nExample:\n  meshwright plan --model gpt-2.6b --cluster "
      "p3.16xlarge:2 -o plan.json");
  context.command_line = printable(join({"meshwright", join(words, " ")}, words.empty() ? "" : " "));
  app_->add_flag_callback("--quiet", be_quiet, "say nothing on stderr but warnings and errors: no progress, no times");
  add_verbs(*app_, context);
  for (CLI::App* verb : app_->get_subcommands([](const CLI::App*) { return true; })) verb->fallthrough();
  refuse_unknown_names(*app_, words);
  answered_ = parse(*app_, words);
  if (answered_) return;
  require(static_cast<bool>(context.action), "no verb was given; `meshwright --help` lists all of them.");
  for (const CLI::App* verb : app_->get_subcommands()) refuse_odd_values(*verb);
}

CommandLine::~CommandLine() = default;

void CommandLine::run() {
  if (!answered_) context_.action();
}

void run_command(Context& context, const std::vector<std::string>& words) { CommandLine(context, words).run(); }

Failure current_failure() {
  const auto of = [](int code, const std::string& sentence) { return Failure{code, said(sentence)}; };
  try {
    throw;
  } catch (const InputError& error) {
    return of(kInputIsWrong, error.what());
  } catch (const NoFeasiblePlan& error) {
    return of(kNoPlan, error.what());
  } catch (const Interrupted& error) {
    return of(kInterrupted, error.what());
  } catch (const SystemError& error) {
    return of(kSystem, error.what());
  } catch (const std::bad_alloc&) {
    return of(kSystem, "this machine has run out of memory; give a smaller model or fewer micro-batches.");
  } catch (const std::exception& error) {
    return {kOurFault,
            said(error.what()) + "\nThis is a bug in meshwright; please report it with the command that led to it."};
  }
}

}  // namespace meshwright
