#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// The command line. CLI11, with its names, stays behind this file: it takes many seconds to
/// compile wherever it is used.

namespace breccia::console {

/// An option of a command. Each function returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  /// Help shows what the option's variable holds now.
  Option* capture_default_str();
  Option* one_of(const std::vector<std::string>& words);
  Option* range(std::uint64_t first, std::uint64_t last);
  /// One argument holds several values.
  Option* delimiter(char between);
  /// It takes so many arguments.
  Option* expected(int least, int most);
  /// An option that is repeated keeps all its arguments.
  Option* take_all();

  /// How often it was given.
  [[nodiscard]] std::size_t count() const;

 private:
  CLI::Option* option_;
};

/// A command: the program, or one below it. Arguments go into variables, which must outlive
/// parse().
/// Owner   commands and options live as long as the program.
class App {
 public:
  /// The program.
  explicit App(const std::string& description);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  App* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand();
  void footer(const std::string& text);

  Option* add_flag(const std::string& name, bool& value, const std::string& description);
  template <class Value>
  Option* add_option(const std::string& name, Value& value, const std::string& description) {
    return add(name, &value, description);
  }

  /// Reads the words behind the program's name. Words for the user, as --help or what is wrong, are
  /// printed; then there is a result: true if the user asked for them.
  [[nodiscard]] std::optional<bool> parse(std::vector<std::string> words);
  /// Whether this command was named.
  [[nodiscard]] bool parsed() const;

 private:
  using Variable =
      std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*, int*,
                   std::int64_t*, std::uint32_t*, std::uint64_t*, double*>;

  explicit App(std::shared_ptr<CLI::App> app);
  Option* add(const std::string& name, Variable variable, const std::string& description);

  const std::shared_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<App>> commands_;
  std::deque<Option> options_;
};

}  // namespace breccia::console
