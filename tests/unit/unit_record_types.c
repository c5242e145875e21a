/* unit_record_types.c: every field of a record with a value of each kind, for each endpoint: what a
 * field does not take is refused by the field's name. */
#include "cli/modes/batch/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A letter for each value. */
#define KINDS "nFti-fsaAkoO"
static const char *const values[] = {"null",  "false", "true", "1",       "-1", "0.5",
                                     "\"x\"", "[]",    "[1]",  "[\"x\"]", "{}", "{\"x\":1}"};

static const char *const begins[] = {
    "\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"p\"",
    "\"url\":\"/v1/chat/"
    "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]",
    "\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"p\"",
    "\"url\":\"/v1/responses\",\"body\":{\"input\":\"p\"",
    "\"url\":\"/v1/score\",\"body\":{\"text_1\":\"p\",\"text_2\":\"q\"",
    "\"url\":\"/v1/rerank\",\"body\":{\"query\":\"p\",\"documents\":[\"q\"]"};
enum { ENDPOINTS = sizeof begins / sizeof *begins };

/* What asks for nothing may stand in a field that is not known; what changes no answer is not read.
 */
#define UNKNOWN "nFao"
#define ANY KINDS

/* The kinds that the fields take, in the order of `begins`. */
static const struct {
    const char *takes[ENDPOINTS], *names;
} fields[] = {
    {{UNKNOWN, "nFt", "nFt", UNKNOWN, UNKNOWN, UNKNOWN}, "add_generation_prompt"},
    {{"nFt", "nFt", "nFt", UNKNOWN, UNKNOWN, UNKNOWN}, "add_special_tokens"},
    {{"nA", "nA", UNKNOWN, "nA", UNKNOWN, UNKNOWN}, "allowed_token_ids"},
    {{"nak", "nak", UNKNOWN, "nak", UNKNOWN, UNKNOWN}, "bad_words dry_sequence_breakers"},
    {{"ni", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "best_of"},
    {{ANY, ANY, ANY, ANY, ANY, ANY}, "cache_salt priority request_id"},
    {{UNKNOWN, "noO", "noO", "noO", "noO", "noO"}, "chat_template_kwargs"},
    {{UNKNOWN, "nF", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "continue_final_message"},
    {{UNKNOWN, UNKNOWN, "ni", UNKNOWN, UNKNOWN, UNKNOWN}, "dimensions"},
    {{"ni", "ni", UNKNOWN, "ni", UNKNOWN, UNKNOWN}, "dry_allowed_length dry_base min_tokens"},
    {{"nif", "nif", UNKNOWN, "nif", UNKNOWN, UNKNOWN},
     "dry_multiplier min_p mirostat_eta mirostat_tau repetition_penalty temperature top_p "
     "typical_p xtc_probability xtc_threshold"},
    {{"ni-", "ni-", UNKNOWN, "ni-", UNKNOWN, UNKNOWN},
     "dry_penalty_last_n repeat_last_n seed top_k"},
    {{"nFt", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "echo"},
    {{UNKNOWN, UNKNOWN, "ni-", UNKNOWN, UNKNOWN, UNKNOWN}, "embd_normalize"},
    {{UNKNOWN, UNKNOWN, "n", UNKNOWN, UNKNOWN, UNKNOWN}, "embed_dtype encoding_format endianness"},
    {{"ni-f", "ni-f", UNKNOWN, "ni-f", UNKNOWN, UNKNOWN},
     "frequency_penalty presence_penalty top_n_sigma"},
    {{"nk", "nk", UNKNOWN, "n", UNKNOWN, UNKNOWN}, "guided_choice"},
    {{ANY, ANY, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
     "guided_decoding_backend length_penalty spaces_between_special_tokens stream_options"},
    {{"ns", "ns", UNKNOWN, "n", UNKNOWN, UNKNOWN}, "guided_grammar guided_regex"},
    {{"nFtsoO", "nFtsoO", UNKNOWN, "nFo", UNKNOWN, UNKNOWN}, "guided_json"},
    {{"nFt", "nFt", UNKNOWN, "nF", UNKNOWN, UNKNOWN}, "guided_json_object"},
    {{"n", "n", UNKNOWN, "n", UNKNOWN, UNKNOWN},
     "guided_whitespace_pattern logprob_token_ids mirostat response_format"},
    {{"nFt", "nFt", UNKNOWN, "nFt", UNKNOWN, UNKNOWN},
     "ignore_eos include_stop_str_in_output skip_special_tokens"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "na", UNKNOWN, UNKNOWN}, "include"},
    {{UNKNOWN, ANY, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "include_reasoning prediction"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "ns", "ns"}, "instruction"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "ns", UNKNOWN, UNKNOWN}, "instructions"},
    {{"no", "no", UNKNOWN, "no", UNKNOWN, UNKNOWN}, "logit_bias structured_outputs"},
    {{"ni", "nFt", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "logprobs"},
    {{UNKNOWN, "ni", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "max_completion_tokens"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "ni", UNKNOWN, UNKNOWN}, "max_output_tokens"},
    {{"ni", "ni", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "max_tokens n prompt_logprobs"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "ni-", UNKNOWN, UNKNOWN}, "max_tool_calls"},
    {{ANY, ANY, UNKNOWN, "no", UNKNOWN, UNKNOWN}, "metadata"},
    {{UNKNOWN, "n", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "modalities reasoning_effort verbosity"},
    {{"ns", "ns", "ns", "ns", "ns", "ns"}, "model"},
    {{UNKNOWN, UNKNOWN, "nFt", UNKNOWN, UNKNOWN, UNKNOWN}, "normalize"},
    {{UNKNOWN, ANY, UNKNOWN, "nFt", UNKNOWN, UNKNOWN}, "parallel_tool_calls"},
    {{ANY, ANY, UNKNOWN, "ns", UNKNOWN, UNKNOWN},
     "prompt_cache_key safety_identifier service_tier"},
    {{ANY, ANY, UNKNOWN, ANY, UNKNOWN, UNKNOWN}, "prompt_cache_options prompt_cache_retention"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "no", UNKNOWN, UNKNOWN}, "reasoning text"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "nFt"}, "return_documents"},
    {{"nFt", "nFt", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "return_token_ids"},
    {{"nsa", "nsa", UNKNOWN, "nsa", UNKNOWN, UNKNOWN}, "samplers"},
    {{"nsak", "nsak", UNKNOWN, "nsak", UNKNOWN, UNKNOWN}, "stop"},
    {{"naA", "naA", UNKNOWN, "naA", UNKNOWN, UNKNOWN}, "stop_token_ids"},
    {{ANY, ANY, UNKNOWN, "nFt", UNKNOWN, UNKNOWN}, "store"},
    {{UNKNOWN, "n", UNKNOWN, "n", UNKNOWN, UNKNOWN}, "tool_choice top_logprobs"},
    {{UNKNOWN, "na", UNKNOWN, "na", UNKNOWN, UNKNOWN}, "tools"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "ni"}, "top_n"},
    {{"ni-", "ni-", "ni-", "ni-", "ni-", "ni-"}, "truncate_prompt_tokens"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, "n", UNKNOWN, UNKNOWN}, "truncation"},
    {{"n", "n", "n", "n", "n", "n"}, "truncation_side"},
    {{UNKNOWN, UNKNOWN, "nFt", UNKNOWN, "nt", "nt"}, "use_activation"},
    {{ANY, ANY, ANY, "ns", ANY, ANY}, "user"},
    {{UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN}, "temperatur Temperature schema"},
};

/* Whether the record is taken; if not, it is refused by this name. */
static int is_taken(const char *begin, const char *name, const char *value)
{
    static const struct record_defaults d = {
        .sampling = {.temperature = 1, .top_p = 1}, .max_tokens = -1, .vocab = 10};
    char line[512];
    struct record r;
    struct refusal why = {0};
    struct err e = {0};
    snprintf(line, sizeof line, "{%s,\"%s\":%s}}", begin, name, value);
    const struct input_line in = {.text = line, .n = strlen(line), .number = 1};
    int rc = record_parse(&r, &in, 0, &d, &why, &e);
    assert_true(rc == 0 || rc == 1);
    if (rc) {
        assert_string_equal(why.field, name);
        assert_true(why.why.msg[0] != 0);
    }
    record_free(&r);
    return !rc;
}

static void check_field(const char *name, const char *const takes[ENDPOINTS])
{
    for (int i = 0; i < ENDPOINTS; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            int want = strchr(takes[i], KINDS[k]) != NULL;
            if (is_taken(begins[i], name, values[k]) != want)
                fail_msg("{%s,\"%s\":%s}} is %s", begins[i], name, values[k],
                         want ? "refused" : "taken");
        }
}

static void fields_take_their_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char names[1024], *rest = names;
        assert_true(strlen(fields[i].names) < sizeof names);
        strcpy(names, fields[i].names);
        for (const char *name; (name = strsep(&rest, " ")) != NULL;)
            check_field(name, fields[i].takes);
    }
}

/* The least and the largest value that a number may have, and what is next to them; "" where there
 * is none. */
static void numbers_have_bounds(void **state)
{
    static const struct {
        const char *begin, *names, *lowest, *under, *highest, *over;
    } numbers[] = {
        {NULL, "top_p min_p typical_p xtc_probability xtc_threshold", "0", "-0.001", "1", "1.001"},
        {NULL, "temperature mirostat_tau mirostat_eta", "0", "-0.001", "100", "100.001"},
        {NULL, "presence_penalty frequency_penalty", "-100", "-100.001", "100", "100.001"},
        {NULL, "repetition_penalty", "0.01", "0.009", "100", "100.001"},
        {NULL, "dry_multiplier", "0", "-0.001", "1000", "1000.001"},
        {NULL, "dry_base", "1", "0.999", "1000", "1000.001"},
        {NULL, "top_n_sigma", "-1", "-1.001", "1000", "1000.001"},
        {NULL, "top_k repeat_last_n dry_penalty_last_n truncate_prompt_tokens", "-1", "-2",
         "16777216", "16777217"},
        {NULL, "dry_allowed_length", "1", "0", "16777216", "16777217"},
        {NULL, "max_tokens", "0", "-1", "16777216", "16777217"},
        {NULL, "n", "1", "0", "1024", "1025"},
        {NULL, "prompt_logprobs logprobs", "0", "-1", "20", "21"},
        {NULL, "mirostat", "0", "-1", "2", "3"},
        {NULL, "stop_token_ids allowed_token_ids", "[0]", "[-1]", "[9]", "[10]"},
        {NULL, "logit_bias", "{\"0\":-100}", "{\"-1\":1}", "{\"9\":100}", "{\"10\":1}"},
        {NULL, "dry_sequence_breakers stop", "[\"a\"]", "[\"\"]", "[\"a\",\"b\"]", "[\"a\",1]"},
        {"\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"p\"", "dimensions", "1", "0", "16777216",
         "16777217"},
        {"\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"p\"", "embd_normalize", "-1", "-2", "",
         "1e9"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char names[256], *rest = names;
        strcpy(names, numbers[i].names);
        const char *begin = numbers[i].begin ? numbers[i].begin : begins[0];
        for (const char *name; (name = strsep(&rest, " ")) != NULL;) {
            const char *const value[] = {numbers[i].lowest, numbers[i].highest, numbers[i].under,
                                         numbers[i].over};
            for (int k = 0; k < 4; k++)
                if (*value[k] && is_taken(begin, name, value[k]) != (k < 2))
                    fail_msg("\"%s\": %s is %s", name, value[k], k < 2 ? "refused" : "taken");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_take_their_kinds),
                                       cmocka_unit_test(numbers_have_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
