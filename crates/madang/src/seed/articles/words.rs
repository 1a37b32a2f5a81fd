//! Texts of articles and comments: news, lost pets, running groups, tips from the market.

use super::super::random::Random;

const PLACES: [&str; 16] = [
    "망원동", "성산동", "연남동", "합정동", "상수동", "봉천동", "화곡동", "길음동", "수유동",
    "장안동", "송현동", "좌동", "봉명동", "인후동", "노형동", "퇴계동",
];
const SPOTS: [&str; 12] = [
    "중앙시장", "근린공원", "하천 산책로", "도서관 앞", "초등학교 후문", "지하철역 2번 출구",
    "주민센터", "체육공원", "버스 정류장", "약수터", "놀이터", "아파트 정문",
];
const WHEN: [&str; 10] = [
    "오늘 아침", "어제저녁", "이번 주말", "다음 주 토요일", "내일 오후", "지난 일요일",
    "오늘 새벽", "이번 달 말", "매주 화요일", "점심때",
];
const PETS: [&str; 8] = [
    "갈색 푸들", "하얀 말티즈", "검은 고양이", "치즈 고양이", "삼색 고양이", "진돗개 믹스",
    "회색 앵무새", "비숑",
];
const PET_SIGNS: [&str; 7] = [
    "빨간 목줄을 하고 있어요.",
    "겁이 많아서 부르면 도망갈 수 있어요.",
    "왼쪽 귀 끝이 조금 접혀 있어요.",
    "사람을 잘 따르는 편입니다.",
    "이름은 보리예요.",
    "이름은 콩이에요.",
    "꼬리에 하얀 점이 있어요.",
];
const GOODS: [&str; 12] = [
    "딸기", "햇감자", "고등어", "참기름", "떡볶이", "손두부", "열무김치", "꽈배기", "한라봉",
    "황태", "쑥떡", "복숭아",
];
const SHOPS: [&str; 8] = [
    "입구 첫 번째 집", "가운데 골목 모퉁이", "주차장 옆 가게", "방앗간 맞은편", "안쪽 생선 가게",
    "할머니 노점", "이층 반찬집", "정육점 옆집",
];
const NEWS: [&str; 10] = [
    "도로 포장 공사를 합니다",
    "가로등이 새로 생겼어요",
    "작은 음악회가 열려요",
    "벼룩시장이 열립니다",
    "정전이 있었어요",
    "분리수거 날짜가 바뀌었어요",
    "벚꽃이 피기 시작했어요",
    "수도관 공사로 물이 잠깐 끊깁니다",
    "자전거 보관대가 옮겨졌어요",
    "무료 건강검진 차가 옵니다",
];
const NEWS_DETAILS: [&str; 8] = [
    "차로 다니시는 분들은 돌아가셔야 할 것 같아요.",
    "자세한 건 주민센터에 문의하면 알려 주십니다.",
    "생각보다 사람이 많았어요.",
    "아이들이랑 같이 가기 좋을 것 같습니다.",
    "현수막에 그렇게 적혀 있더라고요.",
    "소음이 좀 있을 수 있다고 합니다.",
    "혹시 더 아시는 분 계시면 댓글 부탁드려요.",
    "사진은 못 찍었네요.",
];
const PACES: [&str; 6] = [
    "5km를 30분 정도에",
    "7km를 천천히",
    "3km부터 가볍게",
    "10km를 한 시간 안에",
    "걷다 뛰다 하면서 4km를",
    "인터벌로 5km를",
];
const RUN_DETAILS: [&str; 7] = [
    "초보도 환영합니다.",
    "끝나고 커피 한잔해요.",
    "비 오면 다음 날로 미룹니다.",
    "무릎이 안 좋으신 분은 걸어도 돼요.",
    "준비운동 10분 하고 출발합니다.",
    "강아지와 함께 오셔도 좋아요.",
    "지금 네 명 모였습니다.",
];
const MARKET_DETAILS: [&str; 8] = [
    "현금으로 내면 조금 더 깎아 주세요.",
    "오전에 가야 싱싱한 걸 살 수 있어요.",
    "온누리상품권 됩니다.",
    "덤을 넉넉히 주시네요.",
    "마트보다 훨씬 쌌습니다.",
    "줄이 길지만 금방 빠져요.",
    "일요일은 쉬니까 참고하세요.",
    "시식도 해 볼 수 있어요.",
];
const COMMENTS: [&str; 24] = [
    "좋은 정보 감사합니다!",
    "저도 봤어요 ㅎㅎ",
    "어디쯤인가요?",
    "오늘 다녀왔는데 정말이네요.",
    "빨리 찾으시길 바랍니다 ㅠㅠ",
    "저도 같이 뛰어도 될까요?",
    "몇 시까지 하나요?",
    "여기 단골이에요.",
    "공유할게요.",
    "우와 가깝네요!",
    "저희 동네도 그랬으면 좋겠어요.",
    "연락드렸습니다.",
    "주차할 데 있나요?",
    "아이가 좋아하겠어요.",
    "비 와도 하나요?",
    "어제 비슷한 아이를 봤어요. 쪽지 드릴게요.",
    "덕분에 잘 다녀왔습니다.",
    "응원합니다 👏",
    "가격이 조금 올랐더라고요.",
    "다음 주에도 하나요?",
    "찾으셨다니 다행이에요!",
    "저는 조금 늦게 갈게요.",
    "여기 꽈배기도 맛있어요.",
    "참고하겠습니다 🙏",
];

pub(super) fn article(random: &mut Random) -> (String, String) {
    let (place, spot, when) =
        (*random.one_of(&PLACES), *random.one_of(&SPOTS), *random.one_of(&WHEN));
    match random.below(4) {
        0 => news(random, place, spot, when),
        1 => pet(random, place, spot, when),
        2 => run(random, place, spot, when),
        _ => market(random, place, when),
    }
}

pub(super) fn comment(random: &mut Random) -> String {
    let first = *random.one_of(&COMMENTS);
    match random.below(4) {
        0 => format!("{first} {}", random.one_of(&COMMENTS)),
        _ => first.to_owned(),
    }
}

fn news(random: &mut Random, place: &str, spot: &str, when: &str) -> (String, String) {
    let what = *random.one_of(&NEWS);
    let content = format!(
        "{when} {place} {spot} 쪽에 {what}.\n{}\n{}",
        random.one_of(&NEWS_DETAILS),
        random.one_of(&NEWS_DETAILS)
    );
    (format!("[{place}] {spot} {what}"), content)
}

fn pet(random: &mut Random, place: &str, spot: &str, when: &str) -> (String, String) {
    let who = *random.one_of(&PETS);
    let content = format!(
        "{when} {place} {spot} 근처에서 {who} 한 마리를 잃어버렸습니다.\n{}\n{}\n보신 분은 꼭 댓글 남겨 주세요. 부탁드립니다.",
        random.one_of(&PET_SIGNS),
        random.one_of(&PET_SIGNS)
    );
    (format!("{place}에서 {who} 찾습니다"), content)
}

fn run(random: &mut Random, place: &str, spot: &str, when: &str) -> (String, String) {
    let hour = 6 + random.below(14);
    let content = format!(
        "{when} {hour}시에 {spot}에서 모여서 {} 뛰려고 합니다.\n{}\n{}",
        random.one_of(&PACES),
        random.one_of(&RUN_DETAILS),
        random.one_of(&RUN_DETAILS)
    );
    (format!("{place} 달리기 모임 ({when} {hour}시)"), content)
}

fn market(random: &mut Random, place: &str, when: &str) -> (String, String) {
    let goods = *random.one_of(&GOODS);
    let price = 1 + random.below(15);
    let content = format!(
        "{when} {place} 시장에 갔는데 {} {goods}가 한 봉지에 {price},000원이었어요.\n{}\n{}",
        random.one_of(&SHOPS),
        random.one_of(&MARKET_DETAILS),
        random.one_of(&MARKET_DETAILS)
    );
    (format!("{place} 시장 {goods} 추천해요"), content)
}
