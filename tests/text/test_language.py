"""The language of texts is guessed, so that the default analyzer suits them."""

from __future__ import annotations

import pytest

import tercet as tc
from tercet.text.language import guess_language, usual_analyzer

SENTENCES = {
    "danish": "Printeren er ikke forbundet med netværket, og det er en fejl, som vi har set efter opdateringen.",
    "dutch": "De printer is niet met het netwerk verbonden en dat is een fout die wij van de update hebben.",
    "english": "The printer is not connected to the network and this is an error that we have seen after the update.",
    "finnish": "Tulostin ei ole verkossa ja se on virhe, joka on nähty, kun päivitys oli, mutta se voi olla muu.",
    "french": "L'imprimante n'est pas dans le réseau et c'est une erreur que nous avons vue avec la mise à jour.",
    "german": "Der Drucker ist nicht mit dem Netz verbunden, und das ist ein Fehler, den wir nach dem Update sehen.",
    "hungarian": "A nyomtató nem csatlakozik a hálózathoz, és ez egy hiba, hogy a frissítés már nem volt meg.",
    "italian": "La stampante non è collegata alla rete, e questo è un errore che si vede con la versione del sistema.",
    "norwegian": "Skriveren er ikke koblet til nettverket, og det er også en feil vi kan se etter oppdateringen.",
    "portuguese": "A impressora não está ligada à rede, e isso é um erro que se vê com a versão mais nova do sistema.",
    "romanian": "Imprimanta nu este conectată la rețea și aceasta este o eroare din cauza actualizării pentru sistem.",
    "spanish": "La impresora no está conectada a la red, y es un error que se ve con la versión más nueva del sistema.",
    "swedish": "Skrivaren är inte ansluten till nätverket, och det är ett fel som vi har sett efter en uppdatering.",
    "turkish": "Yazıcı ağa bağlı değil ve bu güncelleme ile olan bir hata olarak görüldü, daha sonra da çok kadar.",
    "russian": "Принтер не подключён к сети, и это ошибка, которую мы видели после обновления.",
    "greek": "Ο εκτυπωτής δεν είναι συνδεδεμένος στο δίκτυο και αυτό είναι ένα σφάλμα.",
    "arabic": "الطابعة غير متصلة بالشبكة وهذا خطأ رأيناه بعد التحديث",
    "hindi": "प्रिंटर नेटवर्क से नहीं जुड़ा है और यह एक त्रुटि है",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_each_language_is_told_by_its_function_words_or_letters(language):
    assert guess_language([SENTENCES[language]] * 8) == language
    assert usual_analyzer([SENTENCES[language]] * 8).stemmer == language


@pytest.mark.parametrize(
    "text", ["打印机没有连接到网络", "プリンターがネットワークにつながりません", "เครื่องพิมพ์ไม่ได้เชื่อมต่อกับเครือข่าย"]
)
def test_pairs_of_characters_where_words_have_no_blanks_between_them(text):
    assert usual_analyzer([text]) == tc.Analyzer(tokenizer="characters")


@pytest.mark.parametrize("texts", [[], [""], ["USB-C 100 W"], ["avocado, green", "tea set"], [SENTENCES["german"]]])
def test_too_few_function_words_are_taken_for_english(texts):
    assert usual_analyzer(texts) == tc.Analyzer(stemmer="english")


def test_texts_without_function_words_are_taken_for_english():
    """Texts whose stop words were removed have some words that are function words elsewhere."""
    texts = [
        "vitamin deficiency patients intake fatty acid omega trial randomized cohort da la en di placebo dose"
    ] * 40
    texts += ["protein diet breast cancer risk women plant food serum cholesterol levels weight obesity children"] * 160
    assert usual_analyzer(texts) == tc.Analyzer(stemmer="english")


def test_a_few_foreign_documents_do_not_change_the_language():
    texts = [SENTENCES["english"]] * 40 + [SENTENCES["german"]] * 20 + ["打印机没有连接到网络"] * 5
    assert guess_language(texts) == "english"


def test_an_index_fit_and_bm25_take_the_guess():
    docs = {str(number): f"{SENTENCES['german']} Gerät {number}" for number in range(8)}
    docs |= {"book": "Alle Bücher sind in der Halle, und das ist nicht mit dem Buch zu verwechseln."}
    for model in (tc.TextModel.bm25(docs.values()), tc.Index.build(docs).model):
        assert model.doc_vectorizer.analyzer == tc.Analyzer(stemmer="german")
    found = tc.Index.build(docs).search("Halle")
    assert found[0].doc_id == "book"
    fitted = tc.fit(docs, {"q": "Halle"}, {"q": {"book": 1}})
    assert fitted.doc_vectorizer.analyzer == tc.Analyzer(stemmer="german")


def test_chinese_documents_are_found_by_a_part_of_a_sentence():
    docs = {"printer": "打印机没有连接到网络", "tea": "绿茶套装", "screen": "屏幕没有图像"}
    assert [hit.doc_id for hit in tc.Index.build(docs).search("打印机")] == ["printer"]
