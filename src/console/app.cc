#include "console/app.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

namespace breccia::console {

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return this;
}

Option* Option::range(std::uint64_t first, std::uint64_t last) {
  option_->check(CLI::Range(first, last));
  return this;
}

Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Option* Option::expected(int least, int most) {
  option_->expected(least, most);
  return this;
}

Option* Option::take_all() {
  option_->take_all();
  return this;
}

std::size_t Option::count() const { return option_->count(); }

App::App(const std::string& description)
    : app_(std::make_shared<CLI::App>(description, "breccia")) {}
App::App(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}
App::~App() = default;

App* App::add_subcommand(const std::string& name, const std::string& description) {
  CLI::App* const command = app_->add_subcommand(name, description);
  commands_.emplace_back(new App(app_->get_subcommand_ptr(command)));
  return commands_.back().get();
}

void App::require_subcommand() { app_->require_subcommand(1); }

void App::footer(const std::string& text) { app_->footer(text); }

Option* App::add_flag(const std::string& name, bool& value, const std::string& description) {
  return &options_.emplace_back(app_->add_flag(name, value, description));
}

Option* App::add(const std::string& name, Variable variable, const std::string& description) {
  return std::visit(
      [&](auto* value) {
        return &options_.emplace_back(app_->add_option(name, *value, description));
      },
      variable);
}

std::optional<bool> App::parse(std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0;
  }
  return std::nullopt;
}

bool App::parsed() const { return app_->parsed(); }

}  // namespace breccia::console
