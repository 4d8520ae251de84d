// SPDX-License-Identifier: Apache-2.0
// The extension module meshwright._core: runs one command in this process and returns its document. What is typed, and
// what raises, is Python (python/meshwright/).
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/command.h"
#include "cli/terminal/interruption.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"

namespace nb = nanobind;

namespace meshwright {

namespace {

constexpr std::chrono::milliseconds kBetweenSignals(50);

struct Outcome {
  std::string document;
  std::vector<std::string> warnings;
  Failure failure;  // code 0: none
};

Outcome run_here(const std::vector<std::string>& words) {
  Outcome outcome;
  const Redirection to_outcome([&](const std::string& text) { outcome.document += text; },
                               [&](const std::string& line) { outcome.warnings.push_back(line); });
  Context context;
  context.say_error = [] {};  // there are no other processes
  try {
    run_command(context, words);
  } catch (const std::exception&) {
    outcome.failure = current_failure();
  }
  return outcome;
}

// Python's handlers of signals run on its main thread alone, between its instructions: this stands still there every
// so often for them. One that raises (Ctrl-C) ends the command; what it raised is kept.
void look_for_signals(std::optional<nb::python_error>& raised) {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error error;
  if (!raised) raised.emplace(std::move(error));
  request_interruption();
}

// One command at a time: signals, and where output goes, are the process's.
std::timed_mutex one_command;

std::tuple<int, std::string, std::string, std::vector<std::string>> call(const std::vector<std::string>& words) {
  Outcome outcome;
  std::optional<nb::python_error> raised;
  {
    const nb::gil_scoped_release released;
    std::unique_lock<std::timed_mutex> alone(one_command, std::defer_lock);
    while (!raised && !alone.try_lock_for(kBetweenSignals)) look_for_signals(raised);
    if (alone.owns_lock()) {
      forget_interruption();
      std::future<Outcome> work = std::async(std::launch::async, [&] { return run_here(words); });
      while (work.wait_for(kBetweenSignals) != std::future_status::ready) look_for_signals(raised);
      outcome = work.get();
    }
  }
  if (raised) throw std::move(*raised);
  return {outcome.failure.code, std::move(outcome.document), std::move(outcome.failure.sentence),
          std::move(outcome.warnings)};
}

}  // namespace

}  // namespace meshwright

NB_MODULE(_core, module) {
  meshwright::leave_signals_to_caller();
  meshwright::be_quiet();
  module.def("call", &meshwright::call, nb::arg("words"));
}
