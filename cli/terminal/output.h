// SPDX-License-Identifier: Apache-2.0
// What the command says: data on stdout (a document or its JSON form, whole, at the end), progress on stderr.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"

namespace meshwright {

// Writes to stdout at once, without what could steer a terminal (core/base/text.h); throws SystemError when nobody can
// receive it (a full disk, a closed pipe).
void print(const std::string& text);
void print(const Json& json);
// As print, with the colours of a drawing. REQUIRES: nothing in it is text of an input.
void print_drawing(const std::string& drawing);

// One line on stderr: what varies from run to run, such as how long something took. Not after be_quiet().
void tell(const std::string& line);
// One line on stderr that the user has to know of.
void warn(const std::string& line);

// Where data and warnings go while it lives, in the place of stdout and stderr: for a caller that is a program.
// REQUIRES: no other lives.
class Redirection {
 public:
  using Receive = std::function<void(const std::string& text)>;
  Redirection(Receive data, Receive warning);  // called from any thread, one call at a time each
  ~Redirection();
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;
};

// To be asked before minutes of work end in the file `path`; "" is no file. Throws SystemError unless one can be
// written there, InputError when it is one of the files the command reads or keeps (`others`; "" stands for none).
void expect_writable(const std::string& path, const std::vector<std::string>& others);

// Wall clock of the command itself.
[[nodiscard]] Seconds now();

// Cells of tables: the same digits on every machine.
[[nodiscard]] std::string in_milliseconds(Seconds time);  // "12.345"
[[nodiscard]] std::string in_gibibytes(Bytes bytes);      // four significant digits: "14.72", "0.0003052"
[[nodiscard]] std::string in_percent(double share);       // "5.9"
[[nodiscard]] std::string as_text(double value);          // shortest form that reads back the same

}  // namespace meshwright
