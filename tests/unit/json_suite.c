/* json_suite: the cases of the public JSONTestSuite (github.com/nst/JSONTestSuite), by its names.
 *
 * A text named y_ must be accepted and one named n_ refused.  For one named i_ RFC 8259 leaves the
 * choice to the parser, and the table says which is made here and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

#define BYTES(literal) literal, sizeof(literal) - 1
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct sample {
    const char *name;
    const char *bytes;
    size_t len;
};

static const struct sample accepted[] = {
    {"y_array_arraysWithSpaces", BYTES("[[]   ]")},
    {"y_array_empty-string", BYTES("[\"\"]")},
    {"y_array_empty", BYTES("[]")},
    {"y_array_ending_with_newline", BYTES("[\"a\"]")},
    {"y_array_false", BYTES("[false]")},
    {"y_array_heterogeneous", BYTES("[null, 1, \"1\", {}]")},
    {"y_array_null", BYTES("[null]")},
    {"y_array_with_1_and_newline", BYTES("[1\n]")},
    {"y_array_with_leading_space", BYTES(" [1]")},
    {"y_array_with_several_null", BYTES("[1,null,null,null,2]")},
    {"y_array_with_trailing_space", BYTES("[2] ")},
    {"y_number", BYTES("[123e65]")},
    {"y_number_0e+1", BYTES("[0e+1]")},
    {"y_number_0e1", BYTES("[0e1]")},
    {"y_number_after_space", BYTES("[ 4]")},
    {"y_number_double_close_to_zero",
     BYTES(
         "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]\n")},
    {"y_number_int_with_exp", BYTES("[20e1]")},
    {"y_number_minus_zero", BYTES("[-0]")},
    {"y_number_negative_int", BYTES("[-123]")},
    {"y_number_negative_one", BYTES("[-1]")},
    {"y_number_negative_zero", BYTES("[-0]")},
    {"y_number_real_capital_e", BYTES("[1E22]")},
    {"y_number_real_capital_e_neg_exp", BYTES("[1E-2]")},
    {"y_number_real_capital_e_pos_exp", BYTES("[1E+2]")},
    {"y_number_real_exponent", BYTES("[123e45]")},
    {"y_number_real_fraction_exponent", BYTES("[123.456e78]")},
    {"y_number_real_neg_exp", BYTES("[1e-2]")},
    {"y_number_real_pos_exponent", BYTES("[1e+2]")},
    {"y_number_simple_int", BYTES("[123]")},
    {"y_number_simple_real", BYTES("[123.456789]")},
    {"y_object", BYTES("{\"asd\":\"sdf\", \"dfg\":\"fgh\"}")},
    {"y_object_basic", BYTES("{\"asd\":\"sdf\"}")},
    {"y_object_duplicated_key", BYTES("{\"a\":\"b\",\"a\":\"c\"}")},
    {"y_object_duplicated_key_and_value", BYTES("{\"a\":\"b\",\"a\":\"b\"}")},
    {"y_object_empty", BYTES("{}")},
    {"y_object_empty_key", BYTES("{\"\":0}")},
    {"y_object_escaped_null_in_key", BYTES("{\"foo\\u0000bar\": 42}")},
    {"y_object_extreme_numbers", BYTES("{ \"min\": -1.0e+28, \"max\": 1.0e+28 }")},
    {"y_object_long_strings",
     BYTES("{\"x\":[{\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}], \"id\": "
           "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}")},
    {"y_object_simple", BYTES("{\"a\":[]}")},
    {"y_object_string_unicode",
     BYTES("{\"title\":\"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430 "
           "\\u0417\\u0435\\u043c\\u043b\\u0435\\u043a\\u043e\\u043f\\u0430\" }")},
    {"y_object_with_newlines", BYTES("{\n\"a\": \"b\"\n}")},
    {"y_string_1_2_3_bytes_UTF-8_sequences", BYTES("[\"\\u0060\\u012a\\u12AB\"]")},
    {"y_string_accepted_surrogate_pair", BYTES("[\"\\uD801\\udc37\"]")},
    {"y_string_accepted_surrogate_pairs", BYTES("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]")},
    {"y_string_allowed_escapes", BYTES("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]")},
    {"y_string_backslash_and_u_escaped_zero", BYTES("[\"\\\\u0000\"]")},
    {"y_string_backslash_doublequotes", BYTES("[\"\\\"\"]")},
    {"y_string_comments", BYTES("[\"a/*b*/c/*d//e\"]")},
    {"y_string_double_escape_a", BYTES("[\"\\\\a\"]")},
    {"y_string_double_escape_n", BYTES("[\"\\\\n\"]")},
    {"y_string_escaped_control_character", BYTES("[\"\\u0012\"]")},
    {"y_string_escaped_noncharacter", BYTES("[\"\\uFFFF\"]")},
    {"y_string_in_array", BYTES("[\"asd\"]")},
    {"y_string_in_array_with_leading_space", BYTES("[ \"asd\"]")},
    {"y_string_last_surrogates_1_and_2", BYTES("[\"\\uDBFF\\uDFFF\"]")},
    {"y_string_nbsp_uescaped", BYTES("[\"new\\u00A0line\"]")},
    {"y_string_nonCharacterInUTF-8_U+10FFFF", BYTES("[\"\364\217\277\277\"]")},
    {"y_string_nonCharacterInUTF-8_U+FFFF", BYTES("[\"\357\277\277\"]")},
    {"y_string_null_escape", BYTES("[\"\\u0000\"]")},
    {"y_string_one-byte-utf-8", BYTES("[\"\\u002c\"]")},
    {"y_string_pi", BYTES("[\"\317\200\"]")},
    {"y_string_reservedCharacterInUTF-8_U+1BFFF", BYTES("[\"\360\233\277\277\"]")},
    {"y_string_simple_ascii", BYTES("[\"asd \"]")},
    {"y_string_space", BYTES("\" \"")},
    {"y_string_surrogates_U+1D11E_MUSICAL_SYMBOL_G_CLEF", BYTES("[\"\\uD834\\uDd1e\"]")},
    {"y_string_three-byte-utf-8", BYTES("[\"\\u0821\"]")},
    {"y_string_two-byte-utf-8", BYTES("[\"\\u0123\"]")},
    {"y_string_u+2028_line_sep", BYTES("[\"\342\200\250\"]")},
    {"y_string_u+2029_par_sep", BYTES("[\"\342\200\251\"]")},
    {"y_string_uEscape", BYTES("[\"\\u0061\\u30af\\u30EA\\u30b9\"]")},
    {"y_string_uescaped_newline", BYTES("[\"new\\u000Aline\"]")},
    {"y_string_unescaped_char_delete", BYTES("[\"\177\"]")},
    {"y_string_unicode", BYTES("[\"\\uA66D\"]")},
    {"y_string_unicodeEscapedBackslash", BYTES("[\"\\u005C\"]")},
    {"y_string_unicode_2", BYTES("[\"\342\215\202\343\210\264\342\215\202\"]")},
    {"y_string_unicode_U+10FFFE_nonchar", BYTES("[\"\\uDBFF\\uDFFE\"]")},
    {"y_string_unicode_U+1FFFE_nonchar", BYTES("[\"\\uD83F\\uDFFE\"]")},
    {"y_string_unicode_U+200B_ZERO_WIDTH_SPACE", BYTES("[\"\\u200B\"]")},
    {"y_string_unicode_U+2064_invisible_plus", BYTES("[\"\\u2064\"]")},
    {"y_string_unicode_U+FDD0_nonchar", BYTES("[\"\\uFDD0\"]")},
    {"y_string_unicode_U+FFFE_nonchar", BYTES("[\"\\uFFFE\"]")},
    {"y_string_unicode_escaped_double_quote", BYTES("[\"\\u0022\"]")},
    {"y_string_utf8", BYTES("[\"\342\202\254\360\235\204\236\"]")},
    {"y_string_with_del_character", BYTES("[\"a\177a\"]")},
    {"y_structure_lonely_false", BYTES("false")},
    {"y_structure_lonely_int", BYTES("42")},
    {"y_structure_lonely_negative_real", BYTES("-0.1")},
    {"y_structure_lonely_null", BYTES("null")},
    {"y_structure_lonely_string", BYTES("\"asd\"")},
    {"y_structure_lonely_true", BYTES("true")},
    {"y_structure_string_empty", BYTES("\"\"")},
    {"y_structure_trailing_newline", BYTES("[\"a\"]\n")},
    {"y_structure_true_in_array", BYTES("[true]")},
    {"y_structure_whitespace_array", BYTES(" [] ")},
};

static const struct sample refused[] = {
    {"n_array_1_true_without_comma", BYTES("[1 true]")},
    {"n_array_a_invalid_utf8", BYTES("[a\345]")},
    {"n_array_colon_instead_of_comma", BYTES("[\"\": 1]")},
    {"n_array_comma_after_close", BYTES("[\"\"],")},
    {"n_array_comma_and_number", BYTES("[,1]")},
    {"n_array_double_comma", BYTES("[1,,2]")},
    {"n_array_double_extra_comma", BYTES("[\"x\",,]")},
    {"n_array_extra_close", BYTES("[\"x\"]]")},
    {"n_array_extra_comma", BYTES("[\"\",]")},
    {"n_array_incomplete", BYTES("[\"x\"")},
    {"n_array_incomplete_invalid_value", BYTES("[x")},
    {"n_array_inner_array_no_comma", BYTES("[3[4]]")},
    {"n_array_invalid_utf8", BYTES("[\377]")},
    {"n_array_items_separated_by_semicolon", BYTES("[1:2]")},
    {"n_array_just_comma", BYTES("[,]")},
    {"n_array_just_minus", BYTES("[-]")},
    {"n_array_missing_value", BYTES("[   , \"\"]")},
    {"n_array_newlines_unclosed", BYTES("[\"a\",\n4\n,1,")},
    {"n_array_number_and_comma", BYTES("[1,]")},
    {"n_array_number_and_several_commas", BYTES("[1,,]")},
    {"n_array_spaces_vertical_tab_formfeed", BYTES("[\"\013a\"\\f]")},
    {"n_array_star_inside", BYTES("[*]")},
    {"n_array_unclosed", BYTES("[\"\"")},
    {"n_array_unclosed_trailing_comma", BYTES("[1,")},
    {"n_array_unclosed_with_new_lines", BYTES("[1,\n1\n,1")},
    {"n_array_unclosed_with_object_inside", BYTES("[{}")},
    {"n_incomplete_false", BYTES("[fals]")},
    {"n_incomplete_null", BYTES("[nul]")},
    {"n_incomplete_true", BYTES("[tru]")},
    {"n_multidigit_number_then_00", BYTES("123\000")},
    {"n_number_++", BYTES("[++1234]")},
    {"n_number_+1", BYTES("[+1]")},
    {"n_number_+Inf", BYTES("[+Inf]")},
    {"n_number_-01", BYTES("[-01]")},
    {"n_number_-1.0.", BYTES("[-1.0.]")},
    {"n_number_-2.", BYTES("[-2.]")},
    {"n_number_-NaN", BYTES("[-NaN]")},
    {"n_number_.-1", BYTES("[.-1]")},
    {"n_number_.2e-3", BYTES("[.2e-3]")},
    {"n_number_0.1.2", BYTES("[0.1.2]")},
    {"n_number_0.3e+", BYTES("[0.3e+]")},
    {"n_number_0.3e", BYTES("[0.3e]")},
    {"n_number_0.e1", BYTES("[0.e1]")},
    {"n_number_0_capital_E+", BYTES("[0E+]")},
    {"n_number_0_capital_E", BYTES("[0E]")},
    {"n_number_0e+", BYTES("[0e+]")},
    {"n_number_0e", BYTES("[0e]")},
    {"n_number_1.0e+", BYTES("[1.0e+]")},
    {"n_number_1.0e-", BYTES("[1.0e-]")},
    {"n_number_1.0e", BYTES("[1.0e]")},
    {"n_number_1_000", BYTES("[1 000.0]")},
    {"n_number_1eE2", BYTES("[1eE2]")},
    {"n_number_2.e+3", BYTES("[2.e+3]")},
    {"n_number_2.e-3", BYTES("[2.e-3]")},
    {"n_number_2.e3", BYTES("[2.e3]")},
    {"n_number_9.e+", BYTES("[9.e+]")},
    {"n_number_Inf", BYTES("[Inf]")},
    {"n_number_NaN", BYTES("[NaN]")},
    {"n_number_U+FF11_fullwidth_digit_one", BYTES("[\357\274\221]")},
    {"n_number_expression", BYTES("[1+2]")},
    {"n_number_hex_1_digit", BYTES("[0x1]")},
    {"n_number_hex_2_digits", BYTES("[0x42]")},
    {"n_number_infinity", BYTES("[Infinity]")},
    {"n_number_invalid+-", BYTES("[0e+-1]")},
    {"n_number_invalid-negative-real", BYTES("[-123.123foo]")},
    {"n_number_invalid-utf-8-in-bigger-int", BYTES("[123\345]")},
    {"n_number_invalid-utf-8-in-exponent", BYTES("[1e1\345]")},
    {"n_number_invalid-utf-8-in-int", BYTES("[0\345]\n")},
    {"n_number_minus_infinity", BYTES("[-Infinity]")},
    {"n_number_minus_sign_with_trailing_garbage", BYTES("[-foo]")},
    {"n_number_minus_space_1", BYTES("[- 1]")},
    {"n_number_neg_int_starting_with_zero", BYTES("[-012]")},
    {"n_number_neg_real_without_int_part", BYTES("[-.123]")},
    {"n_number_neg_with_garbage_at_end", BYTES("[-1x]")},
    {"n_number_real_garbage_after_e", BYTES("[1ea]")},
    {"n_number_real_with_invalid_utf8_after_e", BYTES("[1e\345]")},
    {"n_number_real_without_fractional_part", BYTES("[1.]")},
    {"n_number_starting_with_dot", BYTES("[.123]")},
    {"n_number_with_alpha", BYTES("[1.2a-3]")},
    {"n_number_with_alpha_char", BYTES("[1.8011670033376514H-308]")},
    {"n_number_with_leading_zero", BYTES("[012]")},
    {"n_object_bad_value", BYTES("[\"x\", truth]")},
    {"n_object_bracket_key", BYTES("{[: \"x\"}\n")},
    {"n_object_comma_instead_of_colon", BYTES("{\"x\", null}")},
    {"n_object_double_colon", BYTES("{\"x\"::\"b\"}")},
    {"n_object_emoji", BYTES("{\360\237\207\250\360\237\207\255}")},
    {"n_object_garbage_at_end", BYTES("{\"a\":\"a\" 123}")},
    {"n_object_key_with_single_quotes", BYTES("{key: 'value'}")},
    {"n_object_lone_continuation_byte_in_key_and_trailing_comma", BYTES("{\"\271\":\"0\",}")},
    {"n_object_missing_colon", BYTES("{\"a\" b}")},
    {"n_object_missing_key", BYTES("{:\"b\"}")},
    {"n_object_missing_semicolon", BYTES("{\"a\" \"b\"}")},
    {"n_object_missing_value", BYTES("{\"a\":")},
    {"n_object_no-colon", BYTES("{\"a\"")},
    {"n_object_non_string_key", BYTES("{1:1}")},
    {"n_object_non_string_key_but_huge_number_instead", BYTES("{9999E9999:1}")},
    {"n_object_repeated_null_null", BYTES("{null:null,null:null}")},
    {"n_object_several_trailing_commas", BYTES("{\"id\":0,,,,,}")},
    {"n_object_single_quote", BYTES("{'a':0}")},
    {"n_object_trailing_comma", BYTES("{\"id\":0,}")},
    {"n_object_trailing_comment", BYTES("{\"a\":\"b\"}/**/")},
    {"n_object_trailing_comment_open", BYTES("{\"a\":\"b\"}/**//")},
    {"n_object_trailing_comment_slash_open", BYTES("{\"a\":\"b\"}//")},
    {"n_object_trailing_comment_slash_open_incomplete", BYTES("{\"a\":\"b\"}/")},
    {"n_object_two_commas_in_a_row", BYTES("{\"a\":\"b\",,\"c\":\"d\"}")},
    {"n_object_unquoted_key", BYTES("{a: \"b\"}")},
    {"n_object_unterminated-value", BYTES("{\"a\":\"a")},
    {"n_object_with_single_string", BYTES("{ \"foo\" : \"bar\", \"a\" }")},
    {"n_object_with_trailing_garbage", BYTES("{\"a\":\"b\"}#")},
    {"n_single_space", BYTES(" ")},
    {"n_string_1_surrogate_then_escape", BYTES("[\"\\uD800\\\"]")},
    {"n_string_1_surrogate_then_escape_u", BYTES("[\"\\uD800\\u\"]")},
    {"n_string_1_surrogate_then_escape_u1", BYTES("[\"\\uD800\\u1\"]")},
    {"n_string_1_surrogate_then_escape_u1x", BYTES("[\"\\uD800\\u1x\"]")},
    {"n_string_accentuated_char_no_quotes", BYTES("[\303\251]")},
    {"n_string_backslash_00", BYTES("[\"\\\000\"]")},
    {"n_string_escape_x", BYTES("[\"\\x00\"]")},
    {"n_string_escaped_backslash_bad", BYTES("[\"\\\\\\\"]")},
    {"n_string_escaped_ctrl_char_tab", BYTES("[\"\\\t\"]")},
    {"n_string_escaped_emoji", BYTES("[\"\\\360\237\214\200\"]")},
    {"n_string_incomplete_escape", BYTES("[\"\\\"]")},
    {"n_string_incomplete_escaped_character", BYTES("[\"\\u00A\"]")},
    {"n_string_incomplete_surrogate", BYTES("[\"\\uD834\\uDd\"]")},
    {"n_string_incomplete_surrogate_escape_invalid", BYTES("[\"\\uD800\\uD800\\x\"]")},
    {"n_string_invalid-utf-8-in-escape", BYTES("[\"\\u\345\"]")},
    {"n_string_invalid_backslash_esc", BYTES("[\"\\a\"]")},
    {"n_string_invalid_unicode_escape", BYTES("[\"\\uqqqq\"]")},
    {"n_string_invalid_utf8_after_escape", BYTES("[\"\\\345\"]")},
    {"n_string_leading_uescaped_thinspace", BYTES("[\\u0020\"asd\"]")},
    {"n_string_no_quotes_with_bad_escape", BYTES("[\\n]")},
    {"n_string_single_doublequote", BYTES("\"")},
    {"n_string_single_quote", BYTES("['single quote']")},
    {"n_string_single_string_no_double_quotes", BYTES("abc")},
    {"n_string_start_escape_unclosed", BYTES("[\"\\")},
    {"n_string_unescaped_ctrl_char", BYTES("[\"a\000a\"]")},
    {"n_string_unescaped_newline", BYTES("[\"new\nline\"]")},
    {"n_string_unescaped_tab", BYTES("[\"\t\"]")},
    {"n_string_unicode_CapitalU", BYTES("\"\\UA66D\"")},
    {"n_string_with_trailing_garbage", BYTES("\"\"x")},
    {"n_structure_U+2060_word_joined", BYTES("[\342\201\240]")},
    {"n_structure_UTF8_BOM_no_data", BYTES("\357\273\277")},
    {"n_structure_angle_bracket_.", BYTES("<.>")},
    {"n_structure_angle_bracket_null", BYTES("[<null>]")},
    {"n_structure_array_trailing_garbage", BYTES("[1]x")},
    {"n_structure_array_with_extra_array_close", BYTES("[1]]")},
    {"n_structure_array_with_unclosed_string", BYTES("[\"asd]")},
    {"n_structure_ascii-unicode-identifier", BYTES("a\303\245")},
    {"n_structure_capitalized_True", BYTES("[True]")},
    {"n_structure_close_unopened_array", BYTES("1]")},
    {"n_structure_comma_instead_of_closing_brace", BYTES("{\"x\": true,")},
    {"n_structure_double_array", BYTES("[][]")},
    {"n_structure_end_array", BYTES("]")},
    {"n_structure_incomplete_UTF8_BOM", BYTES("\357\273{}")},
    {"n_structure_lone-invalid-utf-8", BYTES("\345")},
    {"n_structure_lone-open-bracket", BYTES("[")},
    {"n_structure_no_data", BYTES("")},
    {"n_structure_null-byte-outside-string", BYTES("[\000]")},
    {"n_structure_number_with_trailing_garbage", BYTES("2@")},
    {"n_structure_object_followed_by_closing_object", BYTES("{}}")},
    {"n_structure_object_unclosed_no_value", BYTES("{\"\":")},
    {"n_structure_object_with_comment", BYTES("{\"a\":/*comment*/\"b\"}")},
    {"n_structure_object_with_trailing_garbage", BYTES("{\"a\": true} \"x\"")},
    {"n_structure_open_array_apostrophe", BYTES("['")},
    {"n_structure_open_array_comma", BYTES("[,")},
    {"n_structure_open_array_open_object", BYTES("[{")},
    {"n_structure_open_array_open_string", BYTES("[\"a")},
    {"n_structure_open_array_string", BYTES("[\"a\"")},
    {"n_structure_open_object", BYTES("{")},
    {"n_structure_open_object_close_array", BYTES("{]")},
    {"n_structure_open_object_comma", BYTES("{,")},
    {"n_structure_open_object_open_array", BYTES("{[")},
    {"n_structure_open_object_open_string", BYTES("{\"a")},
    {"n_structure_open_object_string_with_apostrophes", BYTES("{'a'")},
    {"n_structure_open_open", BYTES("[\"\\{[\"\\{[\"\\{[\"\\{")},
    {"n_structure_single_eacute", BYTES("\351")},
    {"n_structure_single_star", BYTES("*")},
    {"n_structure_trailing_#", BYTES("{\"a\":\"b\"}#{}")},
    {"n_structure_uescaped_LF_before_string", BYTES("[\\u000A\"\"]")},
    {"n_structure_unclosed_array", BYTES("[1")},
    {"n_structure_unclosed_array_partial_null", BYTES("[ false, nul")},
    {"n_structure_unclosed_array_unfinished_false", BYTES("[ true, fals")},
    {"n_structure_unclosed_array_unfinished_true", BYTES("[ false, tru")},
    {"n_structure_unclosed_object", BYTES("{\"asd\":\"asd\"")},
    {"n_structure_unicode-identifier", BYTES("\303\245")},
    {"n_structure_whitespace_U+2060_word_joiner", BYTES("\342\201\240")},
    {"n_structure_whitespace_formfeed", BYTES("[\014]")},
};

/* A number of any size is accepted: it is kept as text, and json_int and json_double say whether it
 * fits.  Text that is no Unicode is refused: half of a surrogate pair, bytes that are not UTF-8,
 * and UTF-16 or a byte order mark, which are seen where a value should begin. */
#define ACCEPTED_NUMBER NULL
#define REFUSED_SURROGATE "half of a surrogate pair"
#define REFUSED_UTF8 "bytes that are not UTF-8"
#define REFUSED_START "expected a value"

struct choice {
    struct sample sample;
    const char *refusal; /* what the error says; NULL when the text is accepted */
};

static const struct choice chosen[] = {
    {{"i_number_double_huge_neg_exp", BYTES("[123.456e-789]")}, ACCEPTED_NUMBER},
    {{"i_number_huge_exp",
      BYTES("[0."
            "4e006699999999999999999999999999999999999999999999999999999999999999999999999999999999"
            "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999"
            "999999999999969999999006]")},
     ACCEPTED_NUMBER},
    {{"i_number_neg_int_huge_exp", BYTES("[-1e+9999]")}, ACCEPTED_NUMBER},
    {{"i_number_pos_double_huge_exp", BYTES("[1.5e+9999]")}, ACCEPTED_NUMBER},
    {{"i_number_real_neg_overflow", BYTES("[-123123e100000]")}, ACCEPTED_NUMBER},
    {{"i_number_real_pos_overflow", BYTES("[123123e100000]")}, ACCEPTED_NUMBER},
    {{"i_number_real_underflow", BYTES("[123e-10000000]")}, ACCEPTED_NUMBER},
    {{"i_number_too_big_neg_int", BYTES("[-123123123123123123123123123123]")}, ACCEPTED_NUMBER},
    {{"i_number_too_big_pos_int", BYTES("[100000000000000000000]")}, ACCEPTED_NUMBER},
    {{"i_number_very_big_negative_int",
      BYTES("[-237462374673276894279832749832423479823246327846]")},
     ACCEPTED_NUMBER},
    {{"i_object_key_lone_2nd_surrogate", BYTES("{\"\\uDFAA\":0}")}, REFUSED_SURROGATE},
    {{"i_string_1st_surrogate_but_2nd_missing", BYTES("[\"\\uDADA\"]")}, REFUSED_SURROGATE},
    {{"i_string_1st_valid_surrogate_2nd_invalid", BYTES("[\"\\uD888\\u1234\"]")},
     REFUSED_SURROGATE},
    {{"i_string_UTF-16LE_with_BOM", BYTES("\377\376[\000\"\000\351\000\"\000]\000")},
     REFUSED_START},
    {{"i_string_UTF-8_invalid_sequence", BYTES("[\"\346\227\245\321\210\372\"]")}, REFUSED_UTF8},
    {{"i_string_UTF8_surrogate_U+D800", BYTES("[\"\355\240\200\"]")}, REFUSED_UTF8},
    {{"i_string_incomplete_surrogate_and_escape_valid", BYTES("[\"\\uD800\\n\"]")},
     REFUSED_SURROGATE},
    {{"i_string_incomplete_surrogate_pair", BYTES("[\"\\uDd1ea\"]")}, REFUSED_SURROGATE},
    {{"i_string_incomplete_surrogates_escape_valid", BYTES("[\"\\uD800\\uD800\\n\"]")},
     REFUSED_SURROGATE},
    {{"i_string_invalid_lonely_surrogate", BYTES("[\"\\ud800\"]")}, REFUSED_SURROGATE},
    {{"i_string_invalid_surrogate", BYTES("[\"\\ud800abc\"]")}, REFUSED_SURROGATE},
    {{"i_string_invalid_utf-8", BYTES("[\"\377\"]")}, REFUSED_UTF8},
    {{"i_string_inverted_surrogates_U+1D11E", BYTES("[\"\\uDd1e\\uD834\"]")}, REFUSED_SURROGATE},
    {{"i_string_iso_latin_1", BYTES("[\"\351\"]")}, REFUSED_UTF8},
    {{"i_string_lone_second_surrogate", BYTES("[\"\\uDFAA\"]")}, REFUSED_SURROGATE},
    {{"i_string_lone_utf8_continuation_byte", BYTES("[\"\201\"]")}, REFUSED_UTF8},
    {{"i_string_not_in_unicode_range", BYTES("[\"\364\277\277\277\"]")}, REFUSED_UTF8},
    {{"i_string_overlong_sequence_2_bytes", BYTES("[\"\300\257\"]")}, REFUSED_UTF8},
    {{"i_string_overlong_sequence_6_bytes", BYTES("[\"\374\203\277\277\277\277\"]")}, REFUSED_UTF8},
    {{"i_string_overlong_sequence_6_bytes_null", BYTES("[\"\374\200\200\200\200\200\"]")},
     REFUSED_UTF8},
    {{"i_string_truncated-utf-8", BYTES("[\"\340\377\"]")}, REFUSED_UTF8},
    {{"i_string_utf16BE_no_BOM", BYTES("\000[\000\"\000\351\000\"\000]")}, REFUSED_START},
    {{"i_string_utf16LE_no_BOM", BYTES("[\000\"\000\351\000\"\000]\000")}, REFUSED_START},
    {{"i_structure_UTF-8_BOM_empty_object", BYTES("\357\273\277{}")}, REFUSED_START},
};

/* parse_exactly parses a copy that ends where the text ends, so that reading past it is seen. */
static enum status parse_exactly(const char *bytes, size_t len, struct err *err)
{
    char *copy = mem_alloc(len);
    assert_non_null(copy);
    if (len)
        memcpy(copy, bytes, len);
    struct json value;
    enum status status = json_parse((struct slice){copy, len}, &value, err);
    mem_free(copy);
    return status;
}

/* parse_repeated parses `unit`, `count` times over, with `end` behind it. */
static enum status parse_repeated(const char *unit, size_t count, const char *end, struct err *err)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < count; i++)
        buf_add_str(&text, unit);
    buf_add_str(&text, end);
    assert_int_equal(buf_status(&text, err), STATUS_OK);
    enum status status = parse_exactly(text.ptr, text.len, err);
    buf_release(&text);
    return status;
}

static void texts_that_must_pass_are_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct err err = {0};
        if (parse_exactly(accepted[i].bytes, accepted[i].len, &err) != STATUS_OK)
            fail_msg("%s: %s", accepted[i].name, err.text);
    }
}

static void texts_that_must_fail_are_refused_with_a_place_and_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct err err = {0};
        if (parse_exactly(refused[i].bytes, refused[i].len, &err) != STATUS_INVALID)
            fail_msg("%s is accepted", refused[i].name);
        size_t byte = 0;
        char reason[2] = "";
        if (sscanf(err.text, "not valid JSON at byte %zu: %1s", &byte, reason) != 2 || byte < 1 ||
            byte > refused[i].len + 1)
            fail_msg("%s: %s", refused[i].name, err.text);
    }
}

static void texts_that_are_left_to_us_are_decided_as_documented(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(chosen); i++) {
        struct err err = {0};
        enum status status = parse_exactly(chosen[i].sample.bytes, chosen[i].sample.len, &err);
        bool as_documented = chosen[i].refusal
                                 ? status == STATUS_INVALID && strstr(err.text, chosen[i].refusal)
                                 : status == STATUS_OK;
        if (!as_documented)
            fail_msg("%s: %s", chosen[i].sample.name, err.text);
    }
}

static void n_structure_100000_opening_arrays_is_refused(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(parse_repeated("[", 100000, "", &err), STATUS_INVALID);
    assert_string_equal(err.text, "not valid JSON at byte 129: nested deeper than 128 levels");
}

static void n_structure_open_array_object_is_refused(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(parse_repeated("[{\"\":", 50000, "\n", &err), STATUS_INVALID);
}

/* The limit on depth decides this one: whatever is nested deeper than it is refused. */
static void i_structure_500_nested_arrays_is_refused_for_its_depth(void **state)
{
    struct err err;
    struct buf closing;
    (void)state;
    buf_init(&closing, 500);
    for (int i = 0; i < 500; i++)
        buf_add_char(&closing, ']');
    assert_int_equal(parse_repeated("[", 500, buf_str(&closing), &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "nested deeper than"));

    /* As many as the limit allows are accepted, and one more is not. */
    const char *end = buf_str(&closing) + 500 - JSON_DEPTH_MAX;
    assert_int_equal(parse_repeated("[", JSON_DEPTH_MAX, end, &err), STATUS_OK);
    assert_int_equal(parse_repeated("[", JSON_DEPTH_MAX + 1, end - 1, &err), STATUS_INVALID);
    buf_release(&closing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_must_pass_are_accepted),
        cmocka_unit_test(texts_that_must_fail_are_refused_with_a_place_and_a_reason),
        cmocka_unit_test(texts_that_are_left_to_us_are_decided_as_documented),
        cmocka_unit_test(n_structure_100000_opening_arrays_is_refused),
        cmocka_unit_test(n_structure_open_array_object_is_refused),
        cmocka_unit_test(i_structure_500_nested_arrays_is_refused_for_its_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
