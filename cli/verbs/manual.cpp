// SPDX-License-Identifier: Apache-2.0
// meshwright manual: the command's manual pages and completions, for whoever installs it.
#include "cli/manual/manual.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

struct ManualOptions {
  std::string folder;
  bool json = false;
};

void write_manual(const CLI::App& app, const ManualOptions& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> written;
  const Manual manual = manual_of(app, MESHWRIGHT_VERSION);
  for (const ManualFile& file : manual_files(manual)) {
    const fs::path path = fs::path(options.folder) / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error)
      throw SystemError(fmt::format("{}: cannot be created ({}).", path.parent_path().string(), error.message()));
    write_file(path.string(), file.text);
    written.push_back(path.string());
  }
  if (options.json) {
    Json json = to_json(manual);
    json["files"] = written;
    return print(json);
  }
  print(join(written, "\n") + "\n");
}

}  // namespace

void add_manual(CLI::App& app, Context& context) {
  auto options = std::make_shared<ManualOptions>();
  CLI::App* verb = app.add_subcommand("manual", "Write the manual pages, and completions for bash, zsh and fish.");
  verb->add_option("folder", options->folder,
                   "write below this folder, as /usr/share has them: man/man1, bash-completion/completions, "
                   "zsh/vendor-completions and fish/vendor_completions.d")
      ->required();
  verb->add_flag("--json", options->json, "print every verb with its options, and what they take, as JSON");
  verb->footer("Example:\n  meshwright manual ~/.local/share");
  verb->callback([&app, &context, options] { context.action = [&app, options] { write_manual(app, *options); }; });
}

}  // namespace meshwright
