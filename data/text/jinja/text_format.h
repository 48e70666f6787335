// Python's two string formatting methods: '%s is %d' % (a, b), and '{} is {x:>4}'.format(a, x=b).
#ifndef MOONRING_DATA_TEXT_JINJA_TEXT_FORMAT_H_
#define MOONRING_DATA_TEXT_JINJA_TEXT_FORMAT_H_

#include <string>

#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

// `given`: a tuple for several values, a dictionary for %(name)s, otherwise the single value.
std::string PercentFormat(Machine& machine, const std::string& format, const Value& given);

// Fields may have [.attribute] and [[item]], !r or !s, and fill, alignment, sign, 0, width, comma,
// precision and type.
std::string BraceFormat(Machine& machine, const std::string& format, const Arguments& arguments);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TEXT_FORMAT_H_
