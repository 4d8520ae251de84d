// SPDX-License-Identifier: Apache-2.0
// The command: finds the verb, runs it, and turns each kind of failure into one sentence on stderr and its exit code
// (core/base/errors.h). Read verbs.h for what there is to run.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <sstream>

#include "cli/terminal/interruption.h"
#include "cli/terminal/memory_limit.h"
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
int fail(const Context& context, int code, const std::string& sentence) {
  constexpr std::size_t kMaxSentence = 4000;
  if (!context.quiet)
    std::fputs(
        fmt::format("meshwright: error: {}\n", shortened(with_short_words(printable(sentence)), kMaxSentence)).c_str(),
        stderr);
  return code;
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
}

std::string command_line(int argc, char** argv) {
  std::string text = "meshwright";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return printable(text);
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_name() == name) return verb;
  return nullptr;
}

// CLI11 reports an unknown verb or option as "not expected"; these name the nearest known ones.
void refuse_unknown_names(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const CLI::App* verb = find_verb(app, argv[1]);
  std::vector<std::string> verbs;
  for (const CLI::App* known : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(known->get_name());
  if (verb == nullptr) throw InputError(unknown_name("verb", argv[1], verbs, "`meshwright --help` lists all of them."));

  std::vector<std::string> options = {"--quiet"};
  for (const CLI::Option* option : verb->get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--") return;
    const std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && std::find(options.begin(), options.end(), name) == options.end())
      throw InputError(unknown_name("option", name, options,
                                    fmt::format("`meshwright {} --help` lists all of them.", verb->get_name())));
  }
}

// True: help or the version was asked for and printed.
bool parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return false;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) {
      print(out.str().ends_with('\n') ? out.str() : out.str() + "\n");
      return true;
    }
    const bool known = argc > 1 && find_verb(app, argv[1]) != nullptr;
    throw InputError(
        fmt::format("{}; see `meshwright{} --help`.", error.what(), known ? std::string(" ") + argv[1] : ""));
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

int run(Context& context, int argc, char** argv) {
  CLI::App app(
      "Finds the fastest way to train a neural network on a cluster of accelerators, and proves it by running it.",
      "meshwright");
  app.set_version_flag("--version", "meshwright " MESHWRIGHT_VERSION);
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 success, 2 wrong input, 3 a bug in meshwright, 4 a system error (file, memory, output), 5 no "
      "feasible plan, 6 an interrupted sweep or profile.\nExample:\n  meshwright plan --model gpt-2.6b --cluster "
      "p3.16xlarge:2 -o "
      "plan.json");
  context.command_line = command_line(argc, argv);
  app.add_flag_callback("--quiet", be_quiet, "say nothing on stderr but warnings and errors: no progress, no times");
  add_verbs(app, context);
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) verb->fallthrough();
  refuse_unknown_names(app, argc, argv);
  if (parse(app, argc, argv)) return 0;
  require(static_cast<bool>(context.action), "no verb was given; `meshwright --help` lists all of them.");
  for (const CLI::App* verb : app.get_subcommands()) refuse_odd_values(*verb);
  context.action();
  return 0;
}

// The exit code of the exception that is being handled, which is said.
int blame(const Context& context) {
  try {
    throw;
  } catch (const InputError& error) {
    return fail(context, kInputIsWrong, error.what());
  } catch (const NoFeasiblePlan& error) {
    return fail(context, kNoPlan, error.what());
  } catch (const Interrupted& error) {
    return fail(context, kInterrupted, error.what());
  } catch (const SystemError& error) {
    return fail(context, kSystem, error.what());
  } catch (const std::bad_alloc&) {
    return fail(context, kSystem, "this machine has run out of memory; give a smaller model or fewer micro-batches.");
  } catch (const std::exception& error) {
    (void)fail(context, kOurFault, error.what());
    if (!context.quiet)
      std::fputs("This is a bug in meshwright; please report it with the command that led to it.\n", stderr);
    return kOurFault;
  }
}

int run_and_blame(int argc, char** argv) {
  Context context;
  context.say_error = [&context] {
    static_cast<void>(blame(context));
    context.quiet = true;
  };
  try {
    return run(context, argc, argv);
  } catch (const std::exception&) {
    return blame(context);
  }
}

}  // namespace

}  // namespace meshwright

int main(int argc, char** argv) {
  // A reader that goes away is a failed write with a sentence and exit code 4, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  meshwright::blame_memory_limit();
  return meshwright::run_and_blame(argc, argv);
}
