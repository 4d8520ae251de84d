// SPDX-License-Identifier: Apache-2.0
// The program: runs the command (command.h) and turns each kind of failure into one sentence on stderr and its exit
// code (core/base/errors.h).
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "cli/command.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/memory_limit.h"
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
    run_command(context, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    return 0;
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
