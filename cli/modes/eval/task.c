#include "cli/modes/eval/task.h"

#include "cli/modes/eval/task_text.h"
#include "core/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void task_item_free(struct task_item *it)
{
    for (int i = 0; it->choice && i < it->n_choices; i++) free(it->choice[i]);
    free(it->choice);
    free(it->text);
    free(it->target);
    free(it->letter);
    *it = (struct task_item){0};
}

/* ---- fields of a question */

static int text_of(const json_t *doc, const char *key, const char **text, struct err *e)
{
    const json_t *v = json_object_get(doc, key);
    if (!v) return err_set(e, "has no \"%s\"", key);
    if (!json_is_string(v)) return err_set(e, "\"%s\" is not a string", key);
    *text = json_string_value(v);
    return 0;
}

/* An index below n: an integer from FIRST on, or the same as digits. */
static int index_of(const json_t *doc, const char *key, int first, int n, int *index, struct err *e)
{
    const json_t *v = json_object_get(doc, key);
    const char *s = json_string_value(v);
    if (!v) return err_set(e, "has no \"%s\"", key);
    json_int_t i = json_is_integer(v) ? json_integer_value(v) : -1;
    if (s && *s && strlen(s) < 4 && strspn(s, "0123456789") == strlen(s)) i = atoi(s);
    if (i < first || i >= first + n)
        return err_set(e, "\"%s\" is none of the answers %d to %d", key, first, first + n - 1);
    *index = (int)(i - first);
    return 0;
}

/* The texts of an array, least to most of them, as the choices. CHANGE (may be NULL) makes a text
 * of each. */
static int choices_of(const json_t *list, const char *key, int least, int most,
                      char *(*change)(const char *), struct task_item *it, struct err *e)
{
    size_t n = json_array_size(list);
    if (!list) return err_set(e, "has no \"%s\"", key);
    if (!json_is_array(list) || n < (size_t)least || n > (size_t)most)
        return least == most
                   ? err_set(e, "\"%s\" is not a list of %d texts", key, least)
                   : err_set(e, "\"%s\" is not a list of %d to %d texts", key, least, most);
    if (!(it->choice = calloc(n, sizeof *it->choice))) return err_memory(e);
    it->n_choices = (int)n;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) return err_set(e, "text %zu of \"%s\" is not a string", i + 1, key);
        if (!(it->choice[i] = change ? change(text) : strdup(text))) return err_memory(e);
    }
    return 0;
}

static int question_and_answer(struct task_item *it, const char *question, struct err *e)
{
    if (asprintf(&it->text, "Question: %s\nAnswer:", question) >= 0) return 0;
    it->text = NULL;
    return err_memory(e);
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* The question, a line "A. .." for each choice, "Answer:"; the choices become the letters. */
static int letter_style(struct task_item *it, const char *question, struct err *e)
{
    char *text = task_text_strip(question);
    for (int i = 0; text && i < it->n_choices; i++) {
        char *longer, *letter = strndup(letters + i, 1);
        int n = asprintf(&longer, "%s\n%c. %s", text, letters[i], it->choice[i]);
        free(text);
        text = n < 0 ? NULL : longer;
        free(it->choice[i]);
        it->choice[i] = letter;
        if (!letter) return free(text), err_memory(e);
    }
    if (!text || asprintf(&it->text, "%s\nAnswer:", text) < 0) it->text = NULL;
    free(text);
    return it->text ? 0 : err_memory(e);
}

/* ---- questions */

static int read_mmlu(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *question, *letter = json_string_value(json_object_get(doc, "answer"));
    if (text_of(doc, "question", &question, e) ||
        choices_of(json_object_get(doc, "choices"), "choices", 4, 4, NULL, it, e))
        return -1;
    if (letter && strlen(letter) == 1 && *letter >= 'A' && *letter <= 'D') {
        it->gold = *letter - 'A';
        if (!(it->letter = strdup(letter))) return err_memory(e);
    } else if (index_of(doc, "answer", 0, 4, &it->gold, e)) {
        return -1;
    }
    return letter_style(it, question, e);
}

static int read_hellaswag(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *activity, *a, *b;
    if (text_of(doc, "activity_label", &activity, e) || text_of(doc, "ctx_a", &a, e) ||
        text_of(doc, "ctx_b", &b, e) ||
        choices_of(json_object_get(doc, "endings"), "endings", 4, 4, task_text_clean, it, e) ||
        index_of(doc, "label", 0, 4, &it->gold, e))
        return -1;
    char *capital = task_text_capitalize(b), *whole = NULL;
    if (capital && asprintf(&whole, "%s: %s %s", activity, a, capital) < 0) whole = NULL;
    if (whole) it->text = task_text_clean(whole);
    free(capital);
    free(whole);
    return it->text ? 0 : err_memory(e);
}

static void process_hellaswag(json_t *doc, const struct task_item *it)
{
    json_t *choices = json_array();
    for (int i = 0; i < it->n_choices; i++)
        json_array_append_new(choices, json_text(it->choice[i]));
    json_object_set_new(doc, "query", json_text(it->text));
    json_object_set_new(doc, "choices", choices);
    json_object_set_new(doc, "gold", json_integer(it->gold));
}

static int read_piqa(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *goal, *solution;
    if (text_of(doc, "goal", &goal, e)) return -1;
    if (!(it->choice = calloc(2, sizeof *it->choice))) return err_memory(e);
    it->n_choices = 2;
    for (int i = 0; i < 2; i++) {
        if (text_of(doc, i ? "sol2" : "sol1", &solution, e)) return -1;
        if (!(it->choice[i] = strdup(solution))) return err_memory(e);
    }
    return index_of(doc, "label", 0, 2, &it->gold, e) ? -1 : question_and_answer(it, goal, e);
}

/* The sentence up to "_" with either option is a text; what follows "_" is scored behind both. */
static int read_winogrande(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *sentence, *option[2];
    if (text_of(doc, "sentence", &sentence, e) || text_of(doc, "option1", &option[0], e) ||
        text_of(doc, "option2", &option[1], e) || index_of(doc, "answer", 1, 2, &it->gold, e))
        return -1;
    const char *gap = strchr(sentence, '_');
    if (!gap) return err_set(e, "\"sentence\" has no \"_\"");
    if (!(it->choice = calloc(2, sizeof *it->choice))) return err_memory(e);
    it->n_choices = 2;
    for (int i = 0; i < 2; i++)
        if (asprintf(&it->choice[i], "%.*s%s", (int)(gap - sentence), sentence, option[i]) < 0)
            return it->choice[i] = NULL, err_memory(e);
    return (it->target = task_text_strip(gap + 1)) ? 0 : err_memory(e);
}

/* As the hub has it ({"question", "choices": {"text", "label"}, "answerKey"}), or with "query",
 * "choices" and "gold" (--multiple-choice), whose query begins with "Question: ". */
static int read_arc_fields(const json_t *doc, struct task_item *it, const char **question,
                           struct err *e)
{
    enum { LEAST = 2, MOST = 26 };
    const json_t *choices = json_object_get(doc, "choices"),
                 *labels = json_object_get(choices, "label");
    const char *key, *label, before[] = "Question: ";
    if (json_object_get(doc, "query")) {
        if (text_of(doc, "query", question, e) ||
            choices_of(choices, "choices", LEAST, MOST, NULL, it, e) ||
            index_of(doc, "gold", 0, it->n_choices, &it->gold, e))
            return -1;
        if (strncmp(*question, before, strlen(before)))
            return err_set(e, "\"query\" does not begin with \"%s\"", before);
        *question += strlen(before);
        return 0;
    }
    if (text_of(doc, "question", question, e) || text_of(doc, "answerKey", &key, e)) return -1;
    if (!json_is_object(choices))
        return err_set(e, choices ? "\"choices\" is not an object" : "has no \"choices\"");
    if (choices_of(json_object_get(choices, "text"), "choices.text", LEAST, MOST, NULL, it, e))
        return -1;
    if (json_array_size(labels) != (size_t)it->n_choices)
        return err_set(e, "\"choices.label\" is not a list of %d texts", it->n_choices);
    it->gold = -1;
    for (int i = it->n_choices - 1; i >= 0; i--) {
        if (!(label = json_string_value(json_array_get(labels, (size_t)i))))
            return err_set(e, "text %d of \"choices.label\" is not a string", i + 1);
        if (!strcmp(label, key)) it->gold = i;
    }
    return it->gold < 0 ? err_set(e, "\"answerKey\" is none of \"choices.label\"") : 0;
}

static int read_arc(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *question;
    return read_arc_fields(doc, it, &question, e) ? -1 : question_and_answer(it, question, e);
}

static int read_arc_letters(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *question;
    return read_arc_fields(doc, it, &question, e) ? -1 : letter_style(it, question, e);
}

static int read_gsm8k(const json_t *doc, struct task_item *it, struct err *e)
{
    const char *question, *answer;
    if (text_of(doc, "question", &question, e) || text_of(doc, "answer", &answer, e)) return -1;
    if (!(it->target = strdup(answer))) return err_memory(e);
    return question_and_answer(it, question, e);
}

/* ---- the tables */

#define MMLU_ABOUT "The following are multiple choice questions (with answers) about %s.\n\n"
#define ARC                                                                                        \
    .split = "test", .pools = {"train", "validation"}, .examples = TASK_DRAWN, .version = "1.0"

const struct task task_table[] = {
    {"mmlu", .data = "mmlu", .split = "test", .pools = {"dev"}, .about = MMLU_ABOUT,
     .version = "1.0", .read = read_mmlu, .examples = TASK_FIRST, .by_subject = 1},
    {"hellaswag", .data = "hellaswag", .split = "validation", .pools = {"train", "validation"},
     .version = "1.0", .read = read_hellaswag, .process = process_hellaswag,
     .examples = TASK_DRAWN_BUT_IT, .normalizes = 1},
    {"winogrande", .data = "winogrande", .split = "validation", .pools = {"train", "validation"},
     .version = "1.0", .read = read_winogrande, .examples = TASK_DRAWN_BUT_IT},
    {"piqa", .data = "piqa", .split = "validation", .pools = {"train", "validation"},
     .version = "1.0", .read = read_piqa, .examples = TASK_DRAWN_BUT_IT, .normalizes = 1},
    {"arc_easy", .data = "arc_easy", ARC, .read = read_arc, .normalizes = 1},
    {"arc_challenge", .data = "arc_challenge", ARC, .read = read_arc, .normalizes = 1},
    {"arc_easy_letters", .data = "arc_easy", ARC, .read = read_arc_letters},
    {"arc_challenge_letters", .data = "arc_challenge", ARC, .read = read_arc_letters},
    {"gsm8k", .data = "gsm8k", .split = "test", .pools = {"train"}, .version = "3.0",
     .read = read_gsm8k, .examples = TASK_DRAWN, .n_examples = 5, .most_tokens = 256,
     .stop = {"Question:", "</s>", "<|im_end|>"}},
};
const int task_table_n = sizeof task_table / sizeof *task_table;

const struct task_group_name task_groups[TASK_GROUPS] = {
    [TASK_HUMANITIES] = {"mmlu_humanities", "humanities"},
    [TASK_OTHER] = {"mmlu_other", "other"},
    [TASK_SOCIAL_SCIENCES] = {"mmlu_social_sciences", "social sciences"},
    [TASK_STEM] = {"mmlu_stem", "stem"},
};

const struct task_subject task_subjects[] = {
    {"formal_logic", TASK_HUMANITIES},
    {"high_school_european_history", TASK_HUMANITIES},
    {"high_school_us_history", TASK_HUMANITIES},
    {"high_school_world_history", TASK_HUMANITIES},
    {"international_law", TASK_HUMANITIES},
    {"jurisprudence", TASK_HUMANITIES},
    {"logical_fallacies", TASK_HUMANITIES},
    {"moral_disputes", TASK_HUMANITIES},
    {"moral_scenarios", TASK_HUMANITIES},
    {"philosophy", TASK_HUMANITIES},
    {"prehistory", TASK_HUMANITIES},
    {"professional_law", TASK_HUMANITIES},
    {"world_religions", TASK_HUMANITIES},
    {"business_ethics", TASK_OTHER},
    {"clinical_knowledge", TASK_OTHER},
    {"college_medicine", TASK_OTHER},
    {"global_facts", TASK_OTHER},
    {"human_aging", TASK_OTHER},
    {"management", TASK_OTHER},
    {"marketing", TASK_OTHER},
    {"medical_genetics", TASK_OTHER},
    {"miscellaneous", TASK_OTHER},
    {"nutrition", TASK_OTHER},
    {"professional_accounting", TASK_OTHER},
    {"professional_medicine", TASK_OTHER},
    {"virology", TASK_OTHER},
    {"econometrics", TASK_SOCIAL_SCIENCES},
    {"high_school_geography", TASK_SOCIAL_SCIENCES},
    {"high_school_government_and_politics", TASK_SOCIAL_SCIENCES},
    {"high_school_macroeconomics", TASK_SOCIAL_SCIENCES},
    {"high_school_microeconomics", TASK_SOCIAL_SCIENCES},
    {"high_school_psychology", TASK_SOCIAL_SCIENCES},
    {"human_sexuality", TASK_SOCIAL_SCIENCES},
    {"professional_psychology", TASK_SOCIAL_SCIENCES},
    {"public_relations", TASK_SOCIAL_SCIENCES},
    {"security_studies", TASK_SOCIAL_SCIENCES},
    {"sociology", TASK_SOCIAL_SCIENCES},
    {"us_foreign_policy", TASK_SOCIAL_SCIENCES},
    {"abstract_algebra", TASK_STEM},
    {"anatomy", TASK_STEM},
    {"astronomy", TASK_STEM},
    {"college_biology", TASK_STEM},
    {"college_chemistry", TASK_STEM},
    {"college_computer_science", TASK_STEM},
    {"college_mathematics", TASK_STEM},
    {"college_physics", TASK_STEM},
    {"computer_security", TASK_STEM},
    {"conceptual_physics", TASK_STEM},
    {"electrical_engineering", TASK_STEM},
    {"elementary_mathematics", TASK_STEM},
    {"high_school_biology", TASK_STEM},
    {"high_school_chemistry", TASK_STEM},
    {"high_school_computer_science", TASK_STEM},
    {"high_school_mathematics", TASK_STEM},
    {"high_school_physics", TASK_STEM},
    {"high_school_statistics", TASK_STEM},
    {"machine_learning", TASK_STEM},
};
const int task_subjects_n = sizeof task_subjects / sizeof *task_subjects;
