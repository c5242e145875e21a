/* fields.c: fields of completions that name tokens or cut prompts, in lines of a batch. Works on
 * models/demo; usage: fields BUILD_DIR. */
#include "tests/whole/endpoint_tools.h"

static void prompt_logprobs(void)
{
    batch("{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Once upon a "
          "time\",\"max_tokens\":2,\"prompt_logprobs\":5,\"logprobs\":2,\"echo\":true}}\n"
          "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Once upon a "
          "time\",\"max_tokens\":2,\"logprobs\":2,\"echo\":true}}\n"
          "{\"custom_id\":\"c\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":"
          "\"user\",\"content\":\"Hi\"}],\"max_tokens\":2,\"prompt_logprobs\":0}}\n",
          "--grace", "20");
    json_t *a = body_of(out, "a"), *b = body_of(out, "b");
    const json_t *list = json_object_get(first(a, "choices"), "prompt_logprobs"),
                 *logprobs = json_object_get(first(a, "choices"), "logprobs"),
                 *values = json_object_get(logprobs, "token_logprobs");
    check_that(json_equal((json_t *)logprobs, json_object_get(first(b, "choices"), "logprobs")),
               "logprobs beside prompt_logprobs");
    check_that(json_is_null(json_array_get(list, 0)) && json_array_size(list) == 6,
               "null, then an object for each token");
    for (size_t i = 1; i < json_array_size(list); i++) {
        const json_t *all = json_array_get(list, i);
        void *own = json_object_iter((json_t *)all);
        double logprob = number(json_object_get(json_object_iter_value(own), "logprob"));
        int rank = (int)number(json_object_get(json_object_iter_value(own), "rank")), better = 0;
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)all, key, v)
            better += number(json_object_get(v, "logprob")) > logprob;
        check_that(logprob == number(json_array_get(values, i)), "token %zu: its logprob", i);
        check_that(json_object_size(all) == (rank <= 5 ? 5 : 6) &&
                       (rank <= 5 ? better == rank - 1 : better == 5),
                   "token %zu: rank %d, %d better ones of %zu", i, rank, better,
                   json_object_size(all));
    }
    json_decref(a), json_decref(b);
}

/* The values that an object of completions' logprobs names, made of one of prompt_logprobs, where
 * each id has an entry: of two with the same text the first one. *n_left_out: how many were not. */
static json_t *by_text(const json_t *by_id, int *n_left_out)
{
    json_t *made = json_object(), *v;
    const char *key;
    json_object_foreach ((json_t *)by_id, key, v) {
        const char *text = json_string_value(json_object_get(v, "decoded_token"));
        if (json_object_get(made, text)) ++*n_left_out;
        else json_object_set(made, text, json_object_get(v, "logprob"));
    }
    return made;
}

/* Of prompts that make tokens with the same text likely. */
static void texts_are_named_once(void)
{
    size_t n;
    int n_left_out = 0;
    batch("{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":[139,372,120,305],"
          "\"max_tokens\":1,\"prompt_logprobs\":20,\"logprobs\":20,\"echo\":true}}\n"
          "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":[99,135,58,132],"
          "\"max_tokens\":1,\"prompt_logprobs\":20,\"logprobs\":20,\"echo\":true}}\n",
          "--grace", "20");
    for (int i = 0; i < 2; i++) {
        json_t *body = body_of(out, i ? "b" : "a");
        const json_t *choice = first(body, "choices"),
                     *ids = json_object_get(choice, "prompt_logprobs"),
                     *texts = json_object_get(json_object_get(choice, "logprobs"), "top_logprobs");
        check_that(json_array_size(ids) == 4, "a prompt's values");
        for (size_t k = 1; k < json_array_size(ids); k++) {
            json_t *want = by_text(json_array_get(ids, k), &n_left_out);
            check_that(json_equal(want, json_array_get(texts, k)), "token %zu by its text", k);
            json_decref(want);
        }
        json_decref(body);
    }
    check_that(n_left_out > 1, "two ids with the same text");
    char *text = read_file(out, &n);
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, NULL);
    check_that(line != NULL, "and no name comes twice");
    json_decref(line);
    free(text);
}

static int has_id(const json_t *ids, int a, int b, int c)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        n += id == a || id == b || id == c;
    }
    return n;
}

static const json_t *ids_of(const json_t *body)
{
    return json_object_get(first(body, "choices"), "token_ids");
}

static const char *text_of(const json_t *body)
{
    const char *text = json_string_value(json_object_get(first(body, "choices"), "text"));
    return text ? text : "";
}

static void allowed_and_bad(void)
{
    batch(ASK("a", "\"n\":1") ASK("b", "\"allowed_token_ids\":[13,262,280]") ASK(
              "c", "\"allowed_token_ids\":[13,262,280],\"temperature\":1,\"n\":3,\"seed\":5")
              ASK("d", "\"bad_words\":[\"the\",\"of\"]") ASK("e", "\"bad_words\":[\", the man\"]")
                  ASK("f", "\"guided_choice\":[\"yes\",\"no\"],\"bad_words\":[\"n\",\"no\"]")
                      ASK("g", "\"logprobs\":0,\"logprob_token_ids\":[13,262,13]"),
          "--grace", "20");
    json_t *a = body_of(out, "a"), *b = body_of(out, "b"), *c = body_of(out, "c"),
           *d = body_of(out, "d"), *e = body_of(out, "e"), *f = body_of(out, "f"),
           *g = body_of(out, "g");
    check_that(json_array_size(ids_of(b)) == 20 && has_id(ids_of(b), 13, 262, 280) == 20,
               "only allowed tokens");
    for (size_t i = 0; i < 3; i++)
        check_that(
            has_id(json_object_get(json_array_get(json_object_get(c, "choices"), i), "token_ids"),
                   13, 262, 280) == 20,
            "only allowed tokens, drawn");
    check_that(strstr(text_of(a), " the ") && strstr(text_of(a), ", the man"), "free: \"%s\"",
               text_of(a));
    check_that(!strstr(text_of(d), " the ") && !strstr(text_of(d), " of ") && *text_of(d),
               "no bad words: \"%s\"", text_of(d));
    check_that(!strstr(text_of(e), ", the man") && !strncmp(text_of(e), ", the", 5),
               "only the last token of a word is forbidden: \"%s\"", text_of(e));
    check_that(!strcmp(text_of(f), "yes"), "a choice without the bad one: \"%s\"", text_of(f));
    const json_t *top = json_array_get(
        json_object_get(json_object_get(first(g, "choices"), "logprobs"), "top_logprobs"), 7);
    check_that(json_object_get(top, ",") && json_object_get(top, " the") &&
                   (json_object_size(top) == 2 || json_object_size(top) == 3),
               "the named tokens and the chosen one");
    json_decref(a), json_decref(b), json_decref(c), json_decref(d), json_decref(e), json_decref(f);
    json_decref(g);
}

static int prompt_is(const char *id, const int *want, size_t n)
{
    json_t *body = body_of(out, id);
    const json_t *ids = json_object_get(first(body, "choices"), "prompt_token_ids");
    int same = json_array_size(ids) == n;
    for (size_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(ids, i)) == want[i];
    json_decref(body);
    return same;
}

static void truncation(void)
{
    char *lines = NULL, *at;
    batch(ASK("a", "\"truncate_prompt_tokens\":3")
              ASK("b", "\"truncate_prompt_tokens\":3,\"truncation_side\":\"right\"") ASK(
                  "c", "\"truncate_prompt_tokens\":3,\"add_special_tokens\":false,\"echo\":true")
                  ASK("d", "\"truncate_prompt_tokens\":600"),
          "--grace", "20");
    /* BOS 0, then " Once", of ids 48 1244 588 260 580 */
    check_that(prompt_is("a", (int[]){0, 260, 580}, 3), "the last tokens behind BOS");
    check_that(prompt_is("b", (int[]){0, 48, 1244}, 3), "the first tokens");
    check_that(prompt_is("c", (int[]){588, 260, 580}, 3), "the last tokens");
    check_that(prompt_is("d", (int[]){0, 48, 1244, 588, 260, 580}, 6), "a short prompt stays");
    json_t *c = body_of(out, "c");
    check_that(!strncmp(text_of(c), " upon a time", 12), "echo is what is left: \"%s\"",
               text_of(c));
    json_decref(c);
    lines = malloc(1 << 16);
    if (!lines) exit(2);
    at = lines + sprintf(lines, "{\"custom_id\":\"x\",\"url\":\"/v1/completions\",\"body\":{"
                                "\"max_tokens\":4,\"truncate_prompt_tokens\":-1,"
                                "\"return_token_ids\":true,\"prompt\":[");
    for (int i = 0; i < 3000; i++) at += sprintf(at, i ? ",%d" : "%d", 100 + i % 500);
    sprintf(at, "]}}\n");
    batch(lines, "-c", "200");
    json_t *x = body_of(out, "x");
    const json_t *ids = json_object_get(first(x, "choices"), "prompt_token_ids");
    check_that(json_array_size(ids) == 196 &&
                   json_integer_value(json_array_get(ids, 195)) == 100 + 2999 % 500 &&
                   json_array_size(ids_of(x)) == 4,
               "-1: as many as fit beside max_tokens");
    json_decref(x);
    free(lines);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    prompt_logprobs();
    texts_are_named_once();
    allowed_and_bad();
    truncation();
    shell_code("rm -r %s", dir);
    return report("fields");
}
